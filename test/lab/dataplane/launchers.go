package dataplane

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// launchers are the programs in the pods of VirtualMachineInstances.
type launchers struct {
	provider *providerCluster
	now      func() time.Time
}

// outcome ends a launcher with its VirtualMachineInstance, or when a
// migration leaves it without one.
func (l *launchers) outcome(pod *corev1.Pod) outcome {
	instance := l.instanceOf(pod)
	switch {
	case instance == nil: // not in the cache yet, or gone, in which case the garbage collector deletes the pod
		return outcome{}
	case instance.Status.Phase == kubevirtv1.Succeeded:
		return succeeded("")
	case instance.Status.Phase == kubevirtv1.Failed:
		return failed("")
	case isLeft(pod, instance):
		return succeeded("")
	default:
		return outcome{}
	}
}

// stoppable returns how long a terminating launcher still needs.
func (l *launchers) stoppable(pod *corev1.Pod) time.Duration {
	instance := l.instanceOf(pod)
	if instance == nil || instance.IsFinal() || (instance.IsRunning() && instance.Status.NodeName != pod.Spec.NodeName) {
		return 0 // no guest, or a guest on another node
	}
	return pod.DeletionTimestamp.Sub(l.now())
}

// instanceOf returns the VirtualMachineInstance of a launcher pod, or nil if it is gone.
func (l *launchers) instanceOf(pod *corev1.Pod) *kubevirtv1.VirtualMachineInstance {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	instance, err := l.provider.instance(pod.Namespace + "/" + owner.Name)
	if err != nil || instance.UID != owner.UID {
		return nil
	}
	return instance
}

// isLeft reports whether a migration has left a launcher without a guest: the source of a completed
// migration or the target of a failed one.
func isLeft(pod *corev1.Pod, instance *kubevirtv1.VirtualMachineInstance) bool {
	state := instance.Status.MigrationState
	switch {
	case state == nil || !isMigrationOver(state):
		return false
	case state.Failed:
		return pod.Name == state.TargetPod
	default:
		return pod.Name == state.SourcePod
	}
}
