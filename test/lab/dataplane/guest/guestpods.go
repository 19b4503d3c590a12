// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// Workloads are the pods of the guests: they start at once, never exit, and stop at once.
type Workloads struct {
	Addresses *kubelet.AddressPool
}

// Startable implements kubelet.Workloads.
func (*Workloads) Startable(context.Context, *corev1.Pod) (reason, message string, err error) {
	return "", "", nil
}

// Outcome implements kubelet.Workloads.
func (*Workloads) Outcome(*corev1.Pod) kubelet.Outcome { return kubelet.Outcome{} }

// Stoppable implements kubelet.Workloads.
func (*Workloads) Stoppable(*corev1.Pod) time.Duration { return 0 }

// Address implements kubelet.Workloads.
func (w *Workloads) Address(*corev1.Pod) string { return w.Addresses.Next() }
