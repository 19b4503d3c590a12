// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// refName is the annotation by which tools such as skopeo find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// write replaces the layout in a folder, and returns the digest of its image index. The layout
// contains one index, so that a tool that copies "the image" of the layout copies all platforms. It
// is either complete or missing.
func write(folder string, r release) (digest v1.Hash, err error) {
	index, err := imageIndex(r)
	if err != nil {
		return digest, err
	}

	next := folder + ".new"
	if err := errors.Join(os.RemoveAll(next), os.RemoveAll(folder)); err != nil {
		return digest, fmt.Errorf("remove the previous layout: %w", err)
	}

	path, err := layout.Write(next, empty.Index)
	if err != nil {
		return digest, fmt.Errorf("write %s: %w", next, err)
	}

	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: r.version})); err != nil {
		return digest, fmt.Errorf("write %s: %w", next, err)
	}

	if digest, err = index.Digest(); err != nil {
		return digest, fmt.Errorf("compute the digest: %w", err)
	}

	if err := checkLayout(path, digest); err != nil {
		return digest, fmt.Errorf("%s is broken: %w", next, err)
	}

	return digest, os.Rename(next, folder)
}

// checkLayout reads all of the image, as a client that pushes it does, and recomputes the digests.
func checkLayout(path layout.Path, digest v1.Hash) error {
	root, err := path.ImageIndex()
	if err != nil {
		return err
	}

	index, err := root.ImageIndex(digest)
	if err != nil {
		return err
	}

	return validate.Index(index)
}

func imageIndex(r release) (v1.ImageIndex, error) {
	var images []mutate.IndexAddendum

	for _, architecture := range r.architectures {
		image, err := platformImage(filepath.Join(r.binaries, "linux-"+architecture), architecture, r)
		if err != nil {
			return nil, fmt.Errorf("linux/%s: %w", architecture, err)
		}

		images = append(images, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}

	index, ok := mutate.Annotations(mutate.AppendManifests(empty.Index, images...), r.imageLabels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotate the index: got a %T", index)
	}

	return index, nil
}

// platformImage returns an image with one layer.
func platformImage(folder, architecture string, r release) (v1.Image, error) {
	files, err := archive(folder, r)
	if err != nil {
		return nil, err
	}

	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}

	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	image, err := mutate.Append(base, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, fmt.Errorf("append the layer: %w", err)
	}

	return configured(image, architecture, r)
}

func configured(image v1.Image, architecture string, r release) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}

	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = architecture
	config.Created = v1.Time{Time: r.created}
	config.Config = v1.Config{Entrypoint: r.entrypoint, User: r.user, WorkingDir: r.workingDir, Labels: r.imageLabels()}

	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}

	return image, nil
}

// archive returns a tar archive of the programs. It contains nothing specific to the build machine:
// no build time, no owner, no folder.
func archive(folder string, r release) ([]byte, error) {
	var files bytes.Buffer

	to := tar.NewWriter(&files)

	for _, name := range r.programs {
		program, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // The folder is given on the command line.
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}

		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(program)), Mode: r.mode, ModTime: r.created, Format: tar.FormatPAX}
		if err := to.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}

		if _, err := to.Write(program); err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}
	}

	if err := to.Close(); err != nil {
		return nil, fmt.Errorf("end the archive: %w", err)
	}

	return files.Bytes(), nil
}
