package main

import (
	"archive/tar"
	"bytes"
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
)

// refName is the annotation by which tools such as skopeo find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// write creates an OCI layout from the programs in binaries/linux-ARCHITECTURE. It contains one
// image index, so that a tool that copies "the image" of the layout copies both platforms.
func write(folder, binaries string, r release) error {
	index, err := imageIndex(binaries, r)
	if err != nil {
		return err
	}

	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("write %s: %w", folder, err)
	}

	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: r.version})); err != nil {
		return fmt.Errorf("write %s: %w", folder, err)
	}

	return nil
}

func imageIndex(binaries string, r release) (v1.ImageIndex, error) {
	var images []mutate.IndexAddendum

	for _, architecture := range r.architectures {
		image, err := platformImage(filepath.Join(binaries, "linux-"+architecture), architecture, r)
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
