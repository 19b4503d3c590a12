package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// contents are the contents of a layout.
type contents struct {
	digest v1.Hash // of the image index
	images []platform
}

type platform struct {
	architecture string
	digest       v1.Hash
	compressed   int64 // bytes that a node pulls
	files        []file
}

type file struct {
	header *tar.Header
	data   []byte
}

// check reads a layout as a registry client does, and reports all its deviations from the release.
func check(ctx context.Context, folder string, want release) (contents, error) {
	index, digest, err := theIndex(folder, want.version)
	if err != nil {
		return contents{}, err
	}

	// This recomputes every digest and size.
	if err := validate.Index(index); err != nil {
		return contents{}, fmt.Errorf("the layout is broken: %w", err)
	}

	found := contents{digest: digest}

	manifest, err := index.IndexManifest()
	if err != nil {
		return contents{}, fmt.Errorf("read the index: %w", err)
	}

	errs := []error{same("annotations of the index", manifest.Annotations, want.imageLabels(), maps.Equal)}

	var platforms []string

	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())

		image, err := checkImage(ctx, index, descriptor, want)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", descriptor.Platform, err))
		}

		found.images = append(found.images, image)
	}

	var expected []string
	for _, architecture := range want.architectures {
		expected = append(expected, "linux/"+architecture)
	}

	errs = append(errs, same("platforms", platforms, expected, slices.Equal))

	return found, errors.Join(errs...)
}

// theIndex returns the only index of a layout.
func theIndex(folder, version string) (v1.ImageIndex, v1.Hash, error) {
	path, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("read %s: %w", folder, err)
	}

	manifest, err := path.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("read %s/index.json: %w", folder, err)
	}

	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[refName] != version {
		return nil, v1.Hash{}, fmt.Errorf("%s/index.json must name one image index, %s", folder, version)
	}

	index, err := path.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("read the image index: %w", err)
	}

	return index, manifest.Manifests[0].Digest, nil
}

func checkImage(ctx context.Context, index v1.ImageIndex, descriptor v1.Descriptor, want release) (platform, error) {
	found := platform{architecture: descriptor.Platform.Architecture, digest: descriptor.Digest}

	image, err := index.Image(descriptor.Digest)
	if err != nil {
		return found, fmt.Errorf("read the image: %w", err)
	}

	found.compressed, err = compressedSize(image)
	if err != nil {
		return found, err
	}

	found.files, err = readFiles(image)
	if err != nil {
		return found, err
	}

	return found, errors.Join(checkConfig(image, found.architecture, want), checkFiles(ctx, found, want))
}

func compressedSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, fmt.Errorf("read the manifest: %w", err)
	}

	var size int64

	for _, layer := range manifest.Layers {
		size += layer.Size
	}

	return size, nil
}

func checkConfig(image v1.Image, architecture string, want release) error {
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}

	return errors.Join(
		same("os", config.OS, "linux", equal),
		same("architecture", config.Architecture, architecture, equal),
		same("created", config.Created.UTC().String(), want.created.UTC().String(), equal),
		same("entrypoint", config.Config.Entrypoint, want.entrypoint, slices.Equal),
		same("command", config.Config.Cmd, nil, slices.Equal),
		same("environment", config.Config.Env, nil, slices.Equal),
		same("user", config.Config.User, want.user, equal),
		same("working directory", config.Config.WorkingDir, want.workingDir, equal),
		same("labels", config.Config.Labels, want.imageLabels(), maps.Equal),
	)
}

// readFiles returns all files that a container would see, from all layers.
func readFiles(image v1.Image) ([]file, error) {
	extracted := mutate.Extract(image)
	defer extracted.Close() //nolint:errcheck // It was already read to its end, or failed.

	var files []file

	for from := tar.NewReader(extracted); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}

		if err != nil {
			return nil, fmt.Errorf("read the layers: %w", err)
		}

		data, err := io.ReadAll(from)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", header.Name, err)
		}

		files = append(files, file{header: header, data: data})
	}
}

func equal(a, b string) bool { return a == b }

func same[T any](what string, got, want T, equal func(T, T) bool) error {
	if equal(got, want) {
		return nil
	}

	return fmt.Errorf("%s: got %v, want %v", what, got, want)
}
