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

func TestCPIO_PadsEntries(t *testing.T) {
	t.Parallel()
	a := &cpio{}
	a.add("ab", 0o100644, []byte("12345"))
	a.addDevice("dev/console", 0o020600, 5, 1)
	const header = 110
	data := a.data.String()
	require.Equal(t, "070701"+"00000001"+"000081A4", data[:22])
	require.Equal(t, "00000005", data[54:62], "the size of the content")
	require.Equal(t, "ab\x00\x00\x00"+"\x00"+"12345"+"\x00\x00\x00", data[header:header+14], "names and contents end at multiples of four")
	require.Equal(t, "070701"+"00000002", data[header+14:header+28])
	require.Contains(t, data, "0000000500000001"+"0000000C", "the device, and the length of its name")
	require.Zero(t, len(data)%4)
}
