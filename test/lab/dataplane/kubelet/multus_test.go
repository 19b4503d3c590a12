// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// TestPodsWithoutTheirNetworkDoNotStart starts pods on a cluster that has the network lan/known.
func TestPodsWithoutTheirNetworkDoNotStart(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/k8s.cni.cncf.io/v1/namespaces/lan/network-attachment-definitions/known" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	s := &Startup{Provider: &cluster.Provider{Client: client}}
	for name, test := range map[string]struct {
		reason      string
		annotations map[string]string
		waiting     string
		message     string
	}{
		"none":  {reason: "most pods have only the pod network"},
		"known": {reason: "it exists", annotations: map[string]string{networksAnnotation: `[{"name":"known","namespace":"lan","interface":"a"}]`}},
		"unknown": {
			reason:      "one of two exists",
			waiting:     reasonNoSandbox,
			message:     "cannot find a network-attachment-definition (nosuch) in namespace (lan)",
			annotations: map[string]string{networksAnnotation: `[{"name":"known","namespace":"lan"},{"name":"nosuch","namespace":"lan"}]`},
		},
		"primary": {
			reason:      "it replaces the pod network",
			waiting:     reasonNoSandbox,
			message:     "cannot find a network-attachment-definition (known) in namespace (other)",
			annotations: map[string]string{defaultNetworkAnnotation: "other/known"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := testPod(corev1.RestartPolicyNever)
			pod.Annotations = test.annotations
			waiting, message, err := s.Startable(t.Context(), pod)
			require.NoError(t, err)
			require.Equal(t, test.waiting, waiting, test.reason)
			require.Contains(t, message, test.message, test.reason)
		})
	}
}

// TestNoSandboxIsNoWaitingReason shows what kubelet reports about a pod without a sandbox.
func TestNoSandboxIsNoWaitingReason(t *testing.T) {
	t.Parallel()
	pod := testPod(corev1.RestartPolicyNever)
	setWaiting(pod, reasonNoSandbox, "no network", pod.CreationTimestamp.Time)
	require.Equal(t, &corev1.ContainerStateWaiting{Reason: reasonContainerCreating}, containerState(pod).Waiting)
	require.Equal(t, corev1.ConditionFalse, podConditionStatus(pod, corev1.PodReadyToStartContainers))
	require.Equal(t, "FailedCreatePodSandBox", eventReason(reasonNoSandbox))
	require.Equal(t, "Failed to create pod sandbox: no network", eventMessage("FailedCreatePodSandBox", "no network"))
}
