// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// Launchers are the programs in the pods of VirtualMachineInstances.
type Launchers struct {
	Provider *cluster.Provider
	Now      func() time.Time
}

// Outcome ends a launcher with its VirtualMachineInstance, or when a
// migration leaves it without one.
func (l *Launchers) Outcome(pod *corev1.Pod) kubelet.Outcome {
	instance := l.instanceOf(pod)
	switch {
	case instance == nil: // not in the cache yet, or gone, in which case the garbage collector deletes the pod
		return kubelet.Outcome{}
	case instance.Status.Phase == kubevirtv1.Succeeded:
		return kubelet.Succeeded("")
	case instance.Status.Phase == kubevirtv1.Failed, behaviour.HasFault(instance, behaviour.FaultLauncherKilled) && instance.IsRunning():
		return kubelet.Failed("")
	case isLeft(pod, instance):
		return kubelet.Succeeded("")
	default:
		return kubelet.Outcome{}
	}
}

// Stoppable returns how long a terminating launcher still needs.
func (l *Launchers) Stoppable(pod *corev1.Pod) time.Duration {
	instance := l.instanceOf(pod)
	if instance == nil || instance.IsFinal() || (instance.IsRunning() && instance.Status.NodeName != pod.Spec.NodeName) {
		return 0 // no guest, or a guest on another node
	}
	return pod.DeletionTimestamp.Sub(l.Now())
}

// instanceOf returns the VirtualMachineInstance of a launcher pod, or nil if it is gone.
func (l *Launchers) instanceOf(pod *corev1.Pod) *kubevirtv1.VirtualMachineInstance {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	instance, err := l.Provider.Instance(pod.Namespace + "/" + owner.Name)
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
	case state == nil || !cluster.IsMigrationOver(state):
		return false
	case state.Failed:
		return pod.Name == state.TargetPod
	default:
		return pod.Name == state.SourcePod
	}
}
