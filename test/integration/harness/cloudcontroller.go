// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
)

// RunCloudController builds the extension's cloud-controller-manager, and runs it for the shoot until the test ends, with more arguments.
func (s *Shoot) RunCloudController(t *testing.T, args ...string) {
	t.Helper()

	binary, err := BuildCloudController(t.Context(), t.TempDir())
	require.NoError(t, err)

	started, err := lab.StartCloudController(t.Context(), s.Shoot, binary, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop(context.WithoutCancel(t.Context()))) })
}

// BuildCloudController builds the extension's cloud-controller-manager into a folder, and returns the program.
func BuildCloudController(ctx context.Context, folder string) (string, error) {
	root, err := compile.Root()
	if err != nil {
		return "", err
	}

	binary := filepath.Join(folder, "kubevirt-cloud-controller-manager")

	return binary, compile.Build(ctx, os.Stderr, compile.Program{
		Name:     "cloud-controller-manager",
		Root:     root,
		Module:   "extension",
		Packages: "./cmd/kubevirt-cloud-controller-manager",
		Output:   binary,
	})
}

// RequireBehindLoadBalancers requires that EnsureLoadBalancer's selector selects the pods of
// exactly these machines. It selects by role and by the cluster's name (--cluster-name), for which
// shoots use their cluster tag.
func (s *Shoot) RequireBehindLoadBalancers(t *testing.T, cluster string, names ...string) {
	t.Helper()

	selector := labels.SelectorFromSet(labels.Set{
		"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": cluster,
	})

	pods, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector.String()})
	require.NoError(t, err)

	var selected []string

	for i := range pods.Items {
		selected = append(selected, pods.Items[i].Labels["vm.kubevirt.io/name"])
	}

	require.ElementsMatch(t, names, selected)
}
