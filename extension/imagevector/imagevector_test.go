// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package imagevector

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/utils/imagevector"
	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	"github.com/stretchr/testify/require"
)

// TestImages finds each image for each Kubernetes version that Gardener supports, with a tag.
func TestImages(t *testing.T) {
	t.Parallel()

	for _, entry := range ImageVector() {
		for _, minor := range kubernetesversion.SupportedVersions {
			version := minor + ".0"
			image, err := ImageVector().FindImage(entry.Name, imagevector.TargetVersion(version), imagevector.RuntimeVersion(version))
			require.NoError(t, err, entry.Name)
			require.NotEmpty(t, image.Tag, entry.Name)
		}
	}
}

// TestImages_Pinned refuses tags that a registry moves to other content, without a digest: what runs must be
// what was tested. Bastions exist for hours, and need the security updates of their image.
func TestImages_Pinned(t *testing.T) {
	t.Parallel()

	version := regexp.MustCompile(`^v?\d+\.\d+\.\d+(-[0-9a-z.]+)?(@sha256:[0-9a-f]{64})?$`)

	for _, entry := range ImageVector() {
		if entry.Name != Bastion {
			require.Regexp(t, version, *entry.Tag, entry.Name)
		}
	}

	for _, floating := range []string{"latest", "main", "v1", "v1.2", "nightly-20261101", "stable@sha256:0"} {
		require.NotRegexp(t, version, floating)
	}
}

// TestImages_OwnVersion requires the images of this repository to have its version.
func TestImages_OwnVersion(t *testing.T) {
	t.Parallel()

	version, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)

	for _, name := range []string{MachineControllerManagerProviderKubeVirt, ProviderProxy} {
		image, err := ImageVector().FindImage(name)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(version)), *image.Tag, name)
	}
}

// TestOwnImage runs the loopback proxy and cloud-controller-manager from the extension's image, wherever a landscape stores it.
func TestOwnImage(t *testing.T) {
	const own = "registry.example.com/mirror/gardener-extension-provider-kubevirt:v1@sha256:abc"

	t.Setenv(OwnImageEnv, own)

	image, err := read().FindImage(ProviderProxy)
	require.NoError(t, err)
	require.Equal(t, own, image.String())

	other, err := read().FindImage(CSIAttacher)
	require.NoError(t, err)
	require.NotContains(t, other.String(), "registry.example.com")
}

// TestOverride replaces an image with the file in docs/operations/usage-as-operator.md.
func TestOverride(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/usage-as-operator.md")
	require.NoError(t, err)

	_, example, found := strings.Cut(string(page), "```yaml\nimages:\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")

	file := filepath.Join(t.TempDir(), "images.yaml")
	require.NoError(t, os.WriteFile(file, []byte("images:\n"+example), 0o600))
	t.Setenv(imagevector.OverrideEnv, file)

	image, err := read().FindImage(CSIDriver, imagevector.TargetVersion("1.34.0"), imagevector.RuntimeVersion("1.34.0"))
	require.NoError(t, err)
	require.Equal(t, "registry.example.com/kubevirt-csi-driver:20261101@sha256:...", image.String())

	other, err := read().FindImage(CSIAttacher)
	require.NoError(t, err)
	require.Contains(t, other.String(), "registry.k8s.io/")
}
