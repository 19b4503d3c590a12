// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRegistry pulls the image as containerd does: its layer has the disk, which virt-launcher's user may read.
func TestRegistry(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(disk, []byte("content"), 0o600))
	handler, err := Registry(disk, t.TempDir())
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	get := func(path string) io.Reader {
		response, err := http.Get(server.URL + path) //nolint:noctx // a test
		require.NoError(t, err)
		t.Cleanup(func() { _ = response.Body.Close() })
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		return response.Body
	}

	var manifest struct {
		Config struct{ Digest string }
		Layers []struct {
			Digest string
			Size   int64
		}
	}
	require.NoError(t, json.NewDecoder(get("/v2/any/manifests/1")).Decode(&manifest))
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	require.NoError(t, json.NewDecoder(get("/v2/any/blobs/"+manifest.Config.Digest)).Decode(&config))
	require.Len(t, manifest.Layers, 1)
	require.Equal(t, []string{manifest.Layers[0].Digest}, config.RootFS.DiffIDs, "the layer is not compressed")

	layer := tar.NewReader(get("/v2/any/blobs/" + manifest.Layers[0].Digest))
	folder, err := layer.Next()
	require.NoError(t, err)
	require.Equal(t, "disk/", folder.Name)
	file, err := layer.Next()
	require.NoError(t, err)
	require.Equal(t, "disk/disk.img", file.Name)
	require.Equal(t, qemu, file.Uid)
	content, err := io.ReadAll(layer)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
}
