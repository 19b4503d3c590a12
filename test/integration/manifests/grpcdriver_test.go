// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestShippedGRPCDriver applies the overlay of the driver over gRPC, and starts the driver with the
// resulting arguments. The real machine-controller-manager creates machines through it, with a
// client certificate and without a kubeconfig.
func TestShippedGRPCDriver(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	deployment := applyGRPCDriver(t, s)
	folder := t.TempDir()

	const server, client = "mcm-kubevirt", "machine-controller"

	authority := certificates.NewAuthority(t)
	tls := filepath.Join(folder, "tls")
	kubeconfigs := filepath.Join(folder, "kubeconfigs")
	require.NoError(t, os.Mkdir(tls, 0o700))
	require.NoError(t, os.Mkdir(kubeconfigs, 0o700))
	authority.Issue(t, tls, certificates.Server(server))
	require.NoError(t, os.WriteFile(filepath.Join(kubeconfigs, s.Namespace), s.ProviderKubeconfig, 0o600))

	ports, err := process.FreePorts(t.Context(), 1)
	require.NoError(t, err)

	s.StartDriver(t, fmt.Sprintf("tcp://127.0.0.1:%d", ports[0]), argumentsOf(t, deployment, folder)...)

	kubeconfig := s.ProviderKubeconfig
	s.ProviderKubeconfig = nil
	files := authority.Issue(t, t.TempDir(), certificates.Client(client))
	s.RunControllers(t, fmt.Sprintf("--driver-endpoint=dns:///127.0.0.1:%d", ports[0]), "--driver-tls-server-name="+server,
		"--driver-tls-cert="+files.Certificate, "--driver-tls-key="+files.Key, "--driver-tls-ca="+files.Authorities)
	s.ApplyExample(t)
	s.AwaitRunning(t, 3)
	s.RequireNothingTwice(t)

	s.ProviderKubeconfig = kubeconfig // For the test's own sweep of golden images at the end.
	s.AwaitEnd(t)
}

// applyGRPCDriver applies the overlay with kubectl, in its own namespace, and waits until its pods
// exist. This fails if the namespace's Pod Security refuses them.
func applyGRPCDriver(t *testing.T, s *harness.Shoot) *appsv1.Deployment {
	t.Helper()

	const overlay = "grpc-driver"

	folder := t.TempDir()
	namespace := s.ProviderNamespace + "-grpc"
	kustomization := filepath.Join(folder, overlay, "kustomization.yaml")
	require.NoError(t, os.CopyFS(folder, manifests.Manifests))

	raw, err := os.ReadFile(kustomization)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kustomization, []byte(harness.MustReplace(string(raw), "namespace: mcm-kubevirt", "namespace: "+namespace)), 0o600))

	kubectl := func(ctx context.Context, args ...string) {
		command := exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl, append(args, "-k", filepath.Join(folder, overlay))...)
		command.Env = append(os.Environ(), "KUBECONFIG="+harness.Lab().Provider.AdminKubeconfig)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	kubectl(t.Context(), "apply", "--validate=strict")
	t.Cleanup(func() { kubectl(context.WithoutCancel(t.Context()), "delete", "--wait=false") })

	harness.Eventually(t, "both pods are there", func(ctx context.Context) (bool, error) {
		pods, err := s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=mcm-kubevirt"})

		return err == nil && len(pods.Items) == 2, err
	})

	deployment, err := s.Kube.AppsV1().Deployments(namespace).Get(t.Context(), "mcm-kubevirt", metav1.GetOptions{})
	require.NoError(t, err)

	return deployment
}

// argumentsOf returns the arguments of the shipped container, with its files in a test folder, and
// without the ports, which are chosen by the test.
func argumentsOf(t *testing.T, deployment *appsv1.Deployment, folder string) []string {
	t.Helper()

	args := deployment.Spec.Template.Spec.Containers[0].Args
	require.Equal(t, "serve", args[0])

	var own []string

	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "--listen=tcp://") || strings.HasPrefix(arg, "--metrics-address=") || strings.HasPrefix(arg, "--v=") {
			continue
		}

		own = append(own, strings.ReplaceAll(arg, "/etc/mcm-kubevirt", folder))
	}

	require.Len(t, own, len(args)-4, "each of the four arguments must exist once")

	return own
}
