// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
)

// testSize is the size of the volumes in bytes.
const testSize = 1 << 20

func TestVolumes(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, []byte("system"), 0o600))
	h := &Hypervisor{options: Options{Dir: t.TempDir(), Image: image}}
	disks := []hypervisor.Disk{
		{Volume: "root", PersistentVolume: "pv-1", Size: testSize}, {Volume: "data", PersistentVolume: "pv-2", Size: testSize},
	}
	files, err := h.openDisks(t.Context(), disks)
	require.NoError(t, err)
	requireDisk(t, files["root"], "system")
	requireDisk(t, files["data"], "\x00\x00\x00")

	require.NoError(t, os.WriteFile(files["root"], []byte("changed"), 0o600))
	files, err = h.openDisks(t.Context(), disks)
	require.NoError(t, err)
	requireDisk(t, files["root"], "changed")

	require.NoError(t, h.CloneVolume(t.Context(), "pv-1", "pv-3"))
	requireDisk(t, filepath.Join(h.volume("pv-3"), diskFile), "changed")
	require.NoError(t, os.WriteFile(files["root"], []byte("newer"), 0o600))
	require.NoError(t, h.CloneVolume(t.Context(), "pv-1", "pv-3"))
	data, err := os.ReadFile(filepath.Join(h.volume("pv-3"), diskFile))
	require.NoError(t, err)
	require.Equal(t, "changed", string(data[:7]), "a guest may use the clone")
	require.NoError(t, h.CloneVolume(t.Context(), "pv-unknown", "pv-4"), "its import was simulated")
	require.NoDirExists(t, h.volume("pv-4"))

	require.NoError(t, h.DeleteVolume("pv-1"))
	require.NoError(t, h.DeleteVolume("pv-1"), "a second deletion is not an error")
	require.NoDirExists(t, h.volume("pv-1"))
}

// TestFailedCopyIsNoContent repeats a copy of the image that has failed after its target was created.
func TestFailedCopyIsNoContent(t *testing.T) {
	t.Parallel()
	// It can be opened, but not be read from its beginning.
	h := &Hypervisor{options: Options{Dir: t.TempDir(), Image: "/proc/self/mem"}}
	disks := []hypervisor.Disk{{Volume: "root", PersistentVolume: "pv-1", Size: testSize}}
	_, err := h.openDisks(t.Context(), disks)
	require.ErrorContains(t, err, "copy the guests' image")

	h.options.Image = filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(h.options.Image, []byte("system"), 0o600))
	files, err := h.openDisks(t.Context(), disks)
	require.NoError(t, err)
	requireDisk(t, files["root"], "system")
	entries, err := os.ReadDir(h.volume("pv-1"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func requireDisk(t *testing.T, file, begin string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, data, testSize)
	require.Equal(t, begin, string(data[:len(begin)]))
}
