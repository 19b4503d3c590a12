// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// manifestType is the format of the manifest.
const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// registry serves one image for all names. It has one layer.
type registry struct {
	manifest, config []byte
	layer            string // the file
	digest           string // of the layer
}

// Registry returns a registry whose only image, with any name, is the container disk with a disk image. It keeps the image in a folder.
func Registry(disk, folder string) (http.Handler, error) {
	r := &registry{layer: filepath.Join(folder, "layer.tar")}
	if err := writeDiskLayer(disk, r.layer); err != nil {
		return nil, fmt.Errorf("write the layer of a container disk: %w", err)
	}
	var err error
	if r.digest, err = digest(r.layer); err != nil {
		return nil, err
	}
	if r.config, err = json.Marshal(config{}.json([]string{r.digest})); err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	size, err := os.Stat(r.layer)
	if err != nil {
		return nil, fmt.Errorf("find the layer: %w", err)
	}
	r.manifest, err = json.Marshal(object{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor("application/vnd.docker.container.image.v1+json", digestOf(r.config), int64(len(r.config))),
		"layers": []object{descriptor("application/vnd.docker.image.rootfs.diff.tar", r.digest, size.Size())},
	})
	return r, err
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func descriptor(mediaType, digest string, size int64) object {
	return object{"mediaType": mediaType, "digest": digest, "size": size}
}

// ServeHTTP implements what clients need to pull (specification of the OCI distribution).
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch _, blob, found := strings.Cut(request.URL.Path, "/blobs/"); {
	case found && blob == r.digest:
		http.ServeFile(w, request, r.layer)
	case found && blob == digestOf(r.config):
		http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(r.config))
	case strings.Contains(request.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", digestOf(r.manifest))
		_, _ = w.Write(r.manifest)
	case request.URL.Path == "/v2/":
	default:
		http.NotFound(w, request)
	}
}

// writeDiskLayer writes the layer of a container disk, as KubeVirt and CDI expect it. virt-launcher's user reads the disk.
func writeDiskLayer(disk, layer string) error {
	content, err := os.Open(filepath.Clean(disk))
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // read-only
	info, err := content.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Clean(layer))
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // closed below, unless incomplete
	w := tar.NewWriter(out)
	for _, header := range []*tar.Header{
		{Name: "disk/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: qemu, Gid: qemu},
		{Name: "disk/disk.img", Mode: 0o640, Uid: qemu, Gid: qemu, Size: info.Size()},
	} {
		if err := w.WriteHeader(header); err != nil {
			return err
		}
	}
	if _, err := io.Copy(w, content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
