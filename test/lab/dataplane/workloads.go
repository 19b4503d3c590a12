// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/handler"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/importer"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// providerWorkloads are the programs in the pods of the provider cluster: launchers, CDI's
// workers, jobs and plain pods.
type providerWorkloads struct {
	startup   *kubelet.Startup
	launchers *handler.Launchers
	workers   *importer.Workers
	addresses *kubelet.AddressPool
	loopback  *kubelet.AddressPool // CDI's pods: cdi-controller dials them, and the connection must be refused at once
	now       func() time.Time
}

// Startable implements kubelet.Workloads.
func (w *providerWorkloads) Startable(ctx context.Context, pod *corev1.Pod) (reason, message string, err error) {
	return w.startup.Startable(ctx, pod)
}

// Outcome implements kubelet.Workloads.
func (w *providerWorkloads) Outcome(pod *corev1.Pod) kubelet.Outcome {
	switch {
	case cluster.IsLauncher(pod):
		return w.launchers.Outcome(pod)
	case importer.IsWorker(pod):
		return w.workers.Outcome(pod)
	case isJob(pod):
		return kubelet.AfterLatency(pod, w.now(), behaviour.PodLatency, kubelet.Succeeded(""))
	default:
		return kubelet.Outcome{}
	}
}

// Stoppable implements kubelet.Workloads.
func (w *providerWorkloads) Stoppable(pod *corev1.Pod) time.Duration {
	if !cluster.IsLauncher(pod) {
		return 0
	}
	return w.launchers.Stoppable(pod)
}

// Address implements kubelet.Workloads.
func (w *providerWorkloads) Address(pod *corev1.Pod) string {
	if importer.IsWorker(pod) {
		return w.loopback.Next()
	}
	return w.addresses.Next()
}

// isJob reports whether a pod's containers exit by themselves.
func isJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return temporary || (owner != nil && owner.Kind == "Job")
}
