// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteArchive_IsReadByDockersFormat(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	layer := filepath.Join(folder, "layer")
	require.NoError(t, os.WriteFile(layer, []byte("content"), 0o600))
	file := filepath.Join(folder, "archive")
	require.NoError(t, writeArchive(file, []string{layer}, config{name: "a:1", user: "107"}, config{name: "b:1"}))

	entries := readArchive(t, file)
	require.Equal(t, "content", string(entries["layer"]))
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal(entries["manifest.json"], &manifest))
	require.Len(t, manifest, 2)
	require.Equal(t, []string{"b:1"}, manifest[1].RepoTags)
	require.Equal(t, []string{"layer"}, manifest[1].Layers)
	var image struct {
		Config struct{ User string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	require.NoError(t, json.Unmarshal(entries[manifest[0].Config], &image))
	require.Equal(t, "107", image.Config.User)
	require.Equal(t, []string{"sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"}, image.RootFS.DiffIDs)
}

func readArchive(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(filepath.Clean(file))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // read-only
	entries := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		require.NoError(t, err)
		entries[header.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

func TestCounterDisk_Boots(t *testing.T) {
	t.Parallel()
	const sector, code = 512, 446 // the partition table is behind the code
	disk := CounterDisk()
	require.Less(t, len(bootSector), code)
	require.Equal(t, []byte{0x55, 0xaa}, disk[sector-2:sector], "the BIOS boots no disk without it")
}
