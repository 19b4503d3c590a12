package dataplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// guestWorkloads are the pods of the guests: they start at once, never exit, and stop at once.
type guestWorkloads struct {
	addresses *addressPool
}

func (*guestWorkloads) startable(context.Context, *corev1.Pod) (reason, message string, err error) {
	return "", "", nil
}

func (*guestWorkloads) outcome(*corev1.Pod) outcome { return outcome{} }

func (*guestWorkloads) stoppable(*corev1.Pod) time.Duration { return 0 }

func (w *guestWorkloads) address(*corev1.Pod) string { return w.addresses.next() }
