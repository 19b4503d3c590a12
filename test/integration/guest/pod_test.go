// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// podName is the name of the pod on the worker.
const podName = "app"

// script writes a line, and takes some seconds to end, as applications do.
const script = `trap 'echo stopping; sleep 3; exit 0' TERM; echo hello from $(hostname); while true; do sleep 1; done`

// requirePod requires that a pod runs on the worker, and that its log and a shell are accessible through
// the API server.
func (w *worker) requirePod(t *testing.T) {
	t.Helper()

	_, err := w.Target.CoreV1().Pods(w.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: w.machine.Name},
			Containers: []corev1.Container{{
				Name:            podName,
				Image:           guest.ContainerImage,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{"sh", "-c", script},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		pod, err := w.Target.CoreV1().Pods(w.Namespace).Get(ctx, podName, metav1.GetOptions{})

		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", err
	})
	require.Equal(t, "hello from "+podName, w.kubectl(t, "logs", podName))
	require.Equal(t, podName, w.kubectl(t, "exec", podName, "--", "hostname"))
}

// kubectl runs kubectl in the target cluster and returns its output.
func (w *worker) kubectl(t *testing.T, args ...string) string {
	t.Helper()

	args = append([]string{"--kubeconfig", harness.Lab().Control.AdminKubeconfig, "--namespace", w.Namespace}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	output, err := exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl, args...).CombinedOutput()
	require.NoError(t, err, string(output))

	return strings.TrimSpace(string(output))
}
