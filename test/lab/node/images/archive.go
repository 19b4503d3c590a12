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
	"os"
	"path/filepath"
)

// config is what the images of one archive may differ in.
type config struct {
	name       string // with the tag
	user       string
	entrypoint []string
	version    string // tells images with the same files apart; or ""
}

// object is JSON.
type object = map[string]any

// writeArchive writes images with the same layers in the format of docker save. The layers are files in tar's format.
func writeArchive(file string, layers []string, images ...config) error {
	out, err := os.Create(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("create archive: %w", err)
	}
	w := tar.NewWriter(out)
	if err := writeImages(w, layers, images); err != nil {
		_ = out.Close() // the archive is incomplete anyway
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	if err := w.Close(); err != nil {
		_ = out.Close() // as above
		return fmt.Errorf("end archive: %w", err)
	}
	return out.Close()
}

func writeImages(w *tar.Writer, layers []string, images []config) error {
	var names []string
	var digests []string
	for _, layer := range layers {
		digest, err := digest(layer)
		if err != nil {
			return err
		}
		if err := addFile(w, filepath.Base(layer), layer); err != nil {
			return err
		}
		digests = append(digests, digest)
		names = append(names, filepath.Base(layer))
	}
	var manifest []object
	for i, image := range images {
		name := fmt.Sprintf("config-%d.json", i)
		if err := addJSON(w, name, image.json(digests)); err != nil {
			return err
		}
		manifest = append(manifest, object{"Config": name, "RepoTags": []string{image.name}, "Layers": names})
	}
	return addJSON(w, "manifest.json", manifest)
}

func (c config) json(digests []string) object {
	return object{
		"architecture": "amd64",
		"os":           "linux",
		"config": object{
			"Env":        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"Entrypoint": c.entrypoint,
			"User":       c.user,
			"Labels":     object{"version": c.version},
		},
		"rootfs": object{"type": "layers", "diff_ids": digests},
	}
}

func addJSON(w *tar.Writer, name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	_, err = io.Copy(w, bytes.NewReader(data))
	return err
}

func addFile(w *tar.Writer, name, path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close() //nolint:errcheck // read-only
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size()}); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	_, err = io.Copy(w, f)
	return err
}

// entry is a file, folder or link of a layer.
type entry struct {
	tar.Header

	content []byte
}

// writeLayer writes a layer of a few entries.
func writeLayer(file string, entries ...entry) error {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.Header); err != nil {
			return fmt.Errorf("archive %s: %w", e.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return fmt.Errorf("archive %s: %w", e.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end layer: %w", err)
	}
	if err := os.WriteFile(file, layer.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return nil
}

// digest returns the checksum of a file as a digest of OCI.
func digest(path string) (string, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("open layer: %w", err)
	}
	defer f.Close() //nolint:errcheck // read-only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read layer: %w", err)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}
