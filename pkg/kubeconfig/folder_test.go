// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

func TestFolder(t *testing.T) {
	t.Parallel()

	outer := t.TempDir()
	mounted := filepath.Join(outer, "mounted")
	folder := kubeconfig.Folder(mounted)

	_, err := folder.For("a")
	require.ErrorContains(t, err, "open the folder of kubeconfigs")

	// Like a Secret that kubelet mounts and updates.
	for _, version := range []string{"1", "2"} {
		require.NoError(t, os.MkdirAll(filepath.Join(mounted, version), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(mounted, version, "shoot--a"), []byte(version), 0o600))
	}

	require.NoError(t, os.Symlink("1", filepath.Join(mounted, "..data")))
	require.NoError(t, os.Symlink("..data/shoot--a", filepath.Join(mounted, "shoot--a")))
	require.NoError(t, os.WriteFile(filepath.Join(outer, "secret"), []byte("another secret"), 0o600))
	require.NoError(t, os.Symlink("../secret", filepath.Join(mounted, "link")))

	raw, err := folder.For("shoot--a")
	require.NoError(t, err)
	require.Equal(t, "1", string(raw))

	require.NoError(t, os.Symlink("2", filepath.Join(mounted, "next")))
	require.NoError(t, os.Rename(filepath.Join(mounted, "next"), filepath.Join(mounted, "..data")))

	raw, err = folder.For("shoot--a")
	require.NoError(t, err)
	require.Equal(t, "2", string(raw), "a replaced kubeconfig takes effect at once")

	for _, name := range []string{"", ".", "..", "../secret", "link", filepath.Join(outer, "secret"), "shoot--b", "1/../../secret", "a\x00b"} {
		raw, err := folder.For(name)
		require.Error(t, err, name)
		require.Empty(t, raw, name)
	}

	_, err = folder.For("shoot--b")
	require.ErrorContains(t, err, `no kubeconfig for cluster "shoot--b"`)

	require.NoError(t, os.WriteFile(filepath.Join(mounted, "large"), make([]byte, 1<<20), 0o600))

	raw, err = folder.For("large")
	require.NoError(t, err)

	_, _, err = kubeconfig.RESTConfig(raw)
	require.ErrorContains(t, err, "larger than 256 KiB")
}
