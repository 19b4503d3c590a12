// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ContainerImage is the image of containers in guests: busybox with a shell. Guests have no registry.
const ContainerImage = "lab.local/busybox:1"

// sandboxImage is the name in containerd's default configuration. In guests, it is the same image.
const sandboxImage = "registry.k8s.io/pause:3.6"

// writeContainerImage writes an archive with busybox as a container image, in the format of docker save.
func writeContainerImage(root string) error {
	busybox, err := os.ReadFile(filepath.Join(root, "usr/bin/busybox"))
	if errors.Is(err, os.ErrNotExist) { // the two folders may be one
		busybox, err = os.ReadFile(filepath.Join(root, "bin/busybox"))
	}
	if err != nil {
		return fmt.Errorf("read busybox: %w", err)
	}
	layer, err := archive(busyboxFiles(busybox))
	if err != nil {
		return err
	}
	config, manifest, err := describeImage(layer)
	if err != nil {
		return err
	}
	image, err := archive([]file{
		{name: "manifest.json", data: manifest}, {name: "config.json", data: config}, {name: "layer.tar", data: layer},
	})
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "usr/share/lab")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, "images.tar"), image, 0o644)
}

// describeImage returns the configuration and the manifest of an image with one layer. By default, its
// container sleeps.
func describeImage(layer []byte) (config, manifest []byte, err error) {
	type object = map[string]any
	config, err = json.Marshal(object{
		"architecture": "amd64", "os": "linux",
		"config": object{"Env": []string{"PATH=/bin"}, "Entrypoint": []string{"/bin/sleep", "2147483647"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode configuration: %w", err)
	}
	manifest, err = json.Marshal([]object{{
		"Config": "config.json", "RepoTags": []string{ContainerImage, sandboxImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("encode manifest: %w", err)
	}
	return config, manifest, nil
}

// file is an entry of an archive: a program or other file, or a link.
type file struct {
	name, link string
	data       []byte
}

func busyboxFiles(busybox []byte) []file {
	files := []file{{name: "bin/busybox", data: busybox}}
	for _, command := range []string{"sh", "sleep", "echo", "cat", "id", "hostname", "wget", "date"} {
		files = append(files, file{name: "bin/" + command, link: "busybox"})
	}
	return files
}

func archive(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		if f.link != "" {
			header.Typeflag = tar.TypeSymlink
			header.Linkname = f.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end archive: %w", err)
	}
	return buffer.Bytes(), nil
}
