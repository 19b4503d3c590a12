// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// podName is the name of the pod on the worker.
const podName = "app"

// script writes a line, and takes some seconds to end, as applications do.
const script = `trap 'echo stopping; sleep 3; exit 0' TERM; echo hello from $(hostname); while true; do sleep 1; done`

// requirePod requires that a pod runs on the worker, and that its log and a shell are accessible through
// the API server.
func (w *worker) requirePod(t *testing.T) {
	t.Helper()

	w.awaitNodeAddress(t)

	_, err := w.Target.CoreV1().Pods(w.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: w.machine.Name},
			Containers: []corev1.Container{{
				Name:            podName,
				Image:           images.Busybox,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{"sh", "-c", script},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		pod, err := w.pod(ctx)

		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", err
	})
	require.Equal(t, "hello from "+podName, w.kubectlTarget(t, "logs", podName))
	require.Equal(t, podName, w.kubectlTarget(t, "exec", podName, "--", "hostname"))
}

// requirePodUnchanged requires that the pod's container has not been started again.
func (w *worker) requirePodUnchanged(t *testing.T) {
	t.Helper()

	pod, err := w.pod(t.Context())
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Len(t, pod.Status.ContainerStatuses, 1)
	require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	require.Equal(t, podName, w.kubectlTarget(t, "exec", podName, "--", "hostname"))
}

func (w *worker) pod(ctx context.Context) (*corev1.Pod, error) {
	return w.Target.CoreV1().Pods(w.Namespace).Get(ctx, podName, metav1.GetOptions{})
}

// awaitNodeAddress waits until cloud-controller-manager has given the Node the address of its instance, since the one in the guest is behind
// a masquerade. It does so again some minutes after a migration.
func (w *worker) awaitNodeAddress(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "the Node has the address of its instance", func(ctx context.Context) (bool, error) {
		address, err := w.address(ctx)
		if err != nil {
			return false, err
		}

		node, err := w.Target.CoreV1().Nodes().Get(ctx, w.machine.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		return slices.Contains(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}), nil
	})
}

// kubectlTarget runs kubectl in the target cluster and returns its output.
func (w *worker) kubectlTarget(t *testing.T, args ...string) string {
	t.Helper()

	args = append([]string{"--kubeconfig", harness.Lab().Control.AdminKubeconfig, "--namespace", w.Namespace}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	output, err := exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl, args...).CombinedOutput()
	require.NoError(t, err, string(output))

	return strings.TrimSpace(string(output))
}
