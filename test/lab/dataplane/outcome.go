package dataplane

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// outcome is the result of a pod's containers.
type outcome struct {
	exited  bool
	code    int32
	message string        // termination message
	after   time.Duration // not exited: when to reconcile again
}

// succeeded is the outcome of containers that completed successfully.
func succeeded(message string) outcome {
	return outcome{exited: true, message: message}
}

// failed is the outcome of containers that failed.
func failed(message string) outcome {
	return outcome{exited: true, code: 1, message: message}
}

// afterLatency delays an outcome until the containers have run for a latency.
func afterLatency(pod *corev1.Pod, now time.Time, latency time.Duration, then outcome) outcome {
	since := now
	if running := containerState(pod).Running; running != nil {
		since = running.StartedAt.Time
	}
	if left := remaining(now, since, latency); left > 0 {
		return outcome{after: left}
	}
	return then
}
