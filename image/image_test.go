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
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/require"
)

// made is the release that the tests write. TestMain reads its definition.
var made = release{architectures: supported, version: "v1.2.3", revision: "0123456789abcdef", created: time.Unix(1_700_000_000, 0).UTC()}

// built is the folder with the programs of testdata. All tests share it, since compiling takes
// longer than everything else.
var built string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "image-test-")
	if err != nil {
		panic(err)
	}

	defer os.RemoveAll(folder) //nolint:errcheck // It is a temporary folder.

	if made.definition, err = readDockerfile("../Dockerfile"); err != nil {
		panic(err)
	}

	if err := buildAll(folder); err != nil {
		panic(err)
	}

	built = folder
	made.binaries = folder

	return m.Run()
}

func buildAll(into string) error {
	for _, architecture := range made.architectures {
		for _, name := range made.programs {
			if err := compile(into, name, architecture); err != nil {
				return err
			}
		}
	}

	return nil
}

// compile builds a program of testdata as the Makefile builds the driver's.
func compile(into, name, architecture string, flags ...string) error {
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X main.version=" + made.version + " -X main.revision=" + made.revision,
		"-o", filepath.Join(into, "linux-"+architecture, name),
	}
	command := exec.Command("go", append(append(args, flags...), "./testdata/cmd/"+name)...) //nolint:noctx // It terminates by itself.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=")

	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, output)
	}

	return nil
}

func args(binaries, output string) []string {
	return []string{
		"--dockerfile=../Dockerfile", "--binaries=" + binaries, "--output=" + output,
		"--version=" + made.version, "--revision=" + made.revision, "--created=1700000000",
	}
}

// TestRun_WritesImage requires what docs/development.md promises to users of the image.
func TestRun_WritesImage(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer

	output := filepath.Join(t.TempDir(), "image")
	require.NoError(t, run(t.Context(), args(built, output), &out))
	require.NoDirExists(t, output+".new")

	root, err := layout.ImageIndexFromPath(output)
	require.NoError(t, err)
	require.NoError(t, validate.Index(root), "digests and sizes")

	manifest, err := root.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1, "tools copy the only image of a layout")
	require.Equal(t, map[string]string{refName: made.version}, manifest.Manifests[0].Annotations)
	require.Contains(t, out.String(), manifest.Manifests[0].Digest.String())

	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)

	manifest, err = index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, made.imageLabels(), manifest.Annotations)
	require.Len(t, manifest.Manifests, 2)

	for i, architecture := range supported {
		require.Equal(t, "linux/"+architecture, manifest.Manifests[i].Platform.String())

		image, err := index.Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		requireConfig(t, image, architecture)
		requireFiles(t, image)
	}
}

func requireConfig(t *testing.T, image v1.Image, architecture string) {
	t.Helper()

	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"linux", architecture}, []string{config.OS, config.Architecture})
	require.Equal(t, made.created, config.Created.UTC())
	require.Equal(t, v1.Config{
		Entrypoint: []string{"/machine-controller"},
		User:       "65532:65532",
		WorkingDir: "/",
		Labels:     made.imageLabels(),
	}, config.Config)
}

// requireFiles requires the programs, owned by root, and no other files.
func requireFiles(t *testing.T, image v1.Image) {
	t.Helper()

	extracted := mutate.Extract(image)
	defer extracted.Close() //nolint:errcheck // It is in memory.

	var names []string

	for from := tar.NewReader(extracted); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		require.NoError(t, err)
		require.EqualValues(t, tar.TypeReg, header.Typeflag)
		require.EqualValues(t, 0o555, header.Mode)
		require.Equal(t, []int{0, 0}, []int{header.Uid, header.Gid})
		require.Equal(t, made.created, header.ModTime.UTC())

		names = append(names, header.Name)
	}

	require.Equal(t, []string{"machine-controller", "mcm-kubevirt"}, names)
}

// TestWriteSBOM requires a package for the image, for each program, and for each module in them.
func TestWriteSBOM(t *testing.T) {
	t.Parallel()

	programs, err := checkPrograms(t.Context(), made)
	require.NoError(t, err)

	replaced := &debug.Module{Path: "example.com/before", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/after", Version: "v1.1.0"}}
	programs[0].build.Deps = []*debug.Module{replaced, {Path: "example.com/a_b", Version: "v0.0.0-1+incompatible"}}

	path := filepath.Join(t.TempDir(), "image.spdx.json")
	require.NoError(t, writeSBOM(path, made, programs, v1.Hash{Algorithm: "sha256", Hex: "0123"}))

	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })

	document, err := json.Read(file)
	require.NoError(t, err)
	require.Equal(t, "2023-11-14T22:13:20Z", document.CreationInfo.Created, "the time of the commit")

	purls := map[string]string{}

	for _, p := range document.Packages {
		require.Regexp(t, `^[a-zA-Z0-9.-]+$`, p.PackageSPDXIdentifier)
		purls[string(p.PackageSPDXIdentifier)] = p.PackageExternalReferences[0].Locator
	}

	require.Len(t, purls, len(document.Packages), "identifiers are unique")
	require.Len(t, purls, 1+4+1+2, "the image, two programs for two platforms, the standard library, two modules")
	require.Contains(t, purls, "CONTAINER-machine-controller-manager-provider-kubevirt-v1.2.3")
	require.Equal(t, "pkg:golang/example.com/after@v1.1.0", purls["LIBRARY-example.com-after-v1.1.0"])

	require.Len(t, document.Relationships, 1+4+4+2, "each program also depends on the standard library")

	for _, r := range document.Relationships[1:] {
		require.Contains(t, purls, string(r.RefA.ElementRefID))
		require.Contains(t, purls, string(r.RefB.ElementRefID))
	}
}

// TestRun_SameDigest builds the programs and the image twice, in different folders.
func TestRun_SameDigest(t *testing.T) {
	t.Parallel()

	again := t.TempDir()
	require.NoError(t, buildAll(again))

	var written [2][]byte

	for i, binaries := range []string{built, again} {
		output := filepath.Join(t.TempDir(), "image")
		require.NoError(t, run(t.Context(), args(binaries, output), t.Output()))

		index, err := os.ReadFile(filepath.Join(output, "index.json"))
		require.NoError(t, err)

		sbom, err := os.ReadFile(output + ".spdx.json")
		require.NoError(t, err)

		written[i] = append(index, sbom...)
	}

	require.Equal(t, string(written[0]), string(written[1]))
}

// TestRun_WrongPrograms changes the inputs of the image, and requires that there is no output.
func TestRun_WrongPrograms(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(t *testing.T, binaries string)
		says   string
	}{
		"Missing": {"a program was not built", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(binaries, "linux-arm64", "mcm-kubevirt")))
		}, "linux/arm64: mcm-kubevirt: read program"},
		"Architecture": {"GOARCH was not passed on", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Join(binaries, "linux-arm64")))
			require.NoError(t, os.CopyFS(filepath.Join(binaries, "linux-arm64"), os.DirFS(filepath.Join(binaries, "linux-amd64"))))
		}, "linux/arm64: machine-controller: it was not built with GOARCH=arm64"},
		"Dynamic": {"a program that needs a loader", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, compile(binaries, "mcm-kubevirt", "amd64", "-buildmode=pie"))
		}, "mcm-kubevirt: it was not built with -buildmode=exe"},
		"Path": {"a program that contains the path of its sources", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, compile(binaries, "mcm-kubevirt", "amd64", "-trimpath=false"))
		}, "mcm-kubevirt: it was not built with -trimpath=true"},
		"Version": {"a program without the linker's version", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, compile(binaries, "mcm-kubevirt", "arm64", "-ldflags="))
		}, "linux/arm64: mcm-kubevirt: it does not contain v1.2.3"},
		"Mixed up": {"the programs under each other's names", func(t *testing.T, binaries string) {
			t.Helper()
			one := filepath.Join(binaries, "linux-amd64", made.programs[0])
			other := filepath.Join(binaries, "linux-amd64", made.programs[1])
			require.NoError(t, os.Rename(one, one+".old"))
			require.NoError(t, os.Rename(other, one))
			require.NoError(t, os.Rename(one+".old", other))
		}, "machine-controller: it is another program"},
		"Script": {"not a program at all", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(binaries, "linux-amd64", "mcm-kubevirt"), []byte("#!/bin/sh\n"), 0o600))
		}, "mcm-kubevirt: read how it was built"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			binaries := t.TempDir()
			output := filepath.Join(t.TempDir(), "image")
			require.NoError(t, os.CopyFS(binaries, os.DirFS(built)))
			tc.change(t, binaries)

			require.ErrorContains(t, run(t.Context(), args(binaries, output), t.Output()), tc.says, tc.reason)
			require.NoDirExists(t, output)
		})
	}
}

func TestCheckLayout_BrokenBlob(t *testing.T) {
	t.Parallel()

	folder := filepath.Join(t.TempDir(), "image")
	digest, err := write(folder, made)
	require.NoError(t, err)

	again, err := write(folder, made)
	require.NoError(t, err, "an existing layout is replaced")
	require.Equal(t, digest, again)

	path, err := layout.FromPath(folder)
	require.NoError(t, err)
	require.NoError(t, checkLayout(path, digest))

	blobs, err := filepath.Glob(filepath.Join(folder, "blobs", "sha256", "*"))
	require.NoError(t, err)

	for _, blob := range blobs {
		if info, err := os.Stat(blob); err == nil && info.Size() > 1<<19 { // A layer.
			require.NoError(t, os.Truncate(blob, info.Size()-1))
		}
	}

	require.Error(t, checkLayout(path, digest))
}

func TestParse_WrongCommandLine(t *testing.T) {
	t.Parallel()

	for _, wrong := range [][]string{
		nil,
		{"--binaries=b", "--output=o", "--version=v"},
		append(args("b", "o"), "more"),
		append(args("b", "o"), "--unknown"),
		append(args("b", "o"), "--created=yesterday"),
	} {
		require.ErrorContains(t, run(t.Context(), wrong, t.Output()), "command line")
	}
}
