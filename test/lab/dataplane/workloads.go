package dataplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// providerWorkloads are the programs in the pods of the provider cluster: launchers, CDI's
// workers, jobs and plain pods.
type providerWorkloads struct {
	startup   *startup
	launchers *launchers
	workers   *workers
	addresses *addressPool
	loopback  *addressPool // CDI's pods: cdi-controller dials them, and the connection must be refused at once
	now       func() time.Time
}

func (w *providerWorkloads) startable(ctx context.Context, pod *corev1.Pod) (reason, message string, err error) {
	return w.startup.startable(ctx, pod)
}

func (w *providerWorkloads) outcome(pod *corev1.Pod) outcome {
	switch {
	case isLauncher(pod):
		return w.launchers.outcome(pod)
	case isWorker(pod):
		return w.workers.outcome(pod)
	case isJob(pod):
		return afterLatency(pod, w.now(), podLatency, succeeded(""))
	default:
		return outcome{}
	}
}

func (w *providerWorkloads) stoppable(pod *corev1.Pod) time.Duration {
	if !isLauncher(pod) {
		return 0
	}
	return w.launchers.stoppable(pod)
}

func (w *providerWorkloads) address(pod *corev1.Pod) string {
	if isWorker(pod) {
		return w.loopback.next()
	}
	return w.addresses.next()
}

// isJob reports whether a pod's containers exit by themselves.
func isJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return temporary || (owner != nil && owner.Kind == "Job")
}
