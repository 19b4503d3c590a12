// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestWithKubeconfig requires the Secret of the garden to be that of the documentation, with another
// kubeconfig and nothing else.
func TestWithKubeconfig(t *testing.T) {
	t.Parallel()

	manifest, err := readExample(ExampleSecret)
	require.NoError(t, err)

	changed, err := withKubeconfig(manifest, []byte("another"))
	require.NoError(t, err)

	var want, got corev1.Secret

	require.NoError(t, yaml.UnmarshalStrict(manifest, &want))
	require.NoError(t, yaml.UnmarshalStrict(changed, &got))

	want.StringData = map[string]string{"kubeconfig": "another"}
	require.Equal(t, want, got)
}

// TestManifestsHaveTheVersion requires the manifests with a Kubernetes version to have that of the API
// servers.
func TestManifestsHaveTheVersion(t *testing.T) {
	t.Parallel()

	decode := func(name string, into any) {
		content, err := readManifest(name, "1.99.9")
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(content, into))
	}

	for _, name := range []string{PlainShoot, ExampleShoot} {
		shoot := gardencorev1beta1.Shoot{}
		decode(name, &shoot)
		require.Equal(t, "1.99.9", shoot.Spec.Kubernetes.Version, name)
	}

	profile := gardencorev1beta1.CloudProfile{}
	decode(ExampleCloudProfile, &profile)
	require.Equal(t, []gardencorev1beta1.ExpirableVersion{{Version: "1.99.9"}}, profile.Spec.Kubernetes.Versions)
}
