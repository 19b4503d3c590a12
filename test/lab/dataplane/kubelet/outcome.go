// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// Outcome is the result of a pod's containers.
type Outcome struct {
	Exited  bool
	Code    int32
	Message string        // termination message
	After   time.Duration // not exited: when to reconcile again
}

// Succeeded is the outcome of containers that completed successfully.
func Succeeded(message string) Outcome {
	return Outcome{Exited: true, Message: message}
}

// Failed is the outcome of containers that failed.
func Failed(message string) Outcome {
	return Outcome{Exited: true, Code: 1, Message: message}
}

// AfterLatency delays an outcome until the containers have run for a latency.
func AfterLatency(pod *corev1.Pod, now time.Time, latency time.Duration, then Outcome) Outcome {
	since := now
	if running := containerState(pod).Running; running != nil {
		since = running.StartedAt.Time
	}
	if left := behaviour.Remaining(now, since, latency); left > 0 {
		return Outcome{After: left}
	}
	return then
}
