package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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

func TestImage(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer

	output := filepath.Join(t.TempDir(), "image")
	require.NoError(t, run(t.Context(), args(built, output), &out))

	found, err := check(t.Context(), output, made)
	require.NoError(t, err)
	require.Len(t, found.images, 2)

	for _, says := range []string{
		found.digest.String(), "linux/amd64  " + found.images[0].digest.String(), "linux/arm64  " + found.images[1].digest.String(),
		"crane push " + output + " REGISTRY/NAME:v1.2.3",
	} {
		require.Contains(t, out.String(), says)
	}
}

// TestSameDigest builds the programs and the image twice, in different folders.
func TestSameDigest(t *testing.T) {
	t.Parallel()

	again := t.TempDir()
	require.NoError(t, buildAll(again))

	var digests []v1.Hash

	for _, binaries := range []string{built, again} {
		output := filepath.Join(t.TempDir(), "image")
		require.NoError(t, run(t.Context(), args(binaries, output), t.Output()))

		found, err := check(t.Context(), output, made)
		require.NoError(t, err)

		digests = append(digests, found.digest)
	}

	require.Equal(t, digests[0], digests[1])
}

// TestWrongPrograms changes the inputs of the image, and requires that no output is left.
func TestWrongPrograms(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(t *testing.T, binaries string)
		says   string
	}{
		"Missing": {"a program was not built", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(binaries, "linux-arm64", "mcm-kubevirt")))
		}, "linux/arm64: read program"},
		"Architecture": {"GOARCH was not passed on", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Join(binaries, "linux-arm64")))
			require.NoError(t, os.CopyFS(filepath.Join(binaries, "linux-arm64"), os.DirFS(filepath.Join(binaries, "linux-amd64"))))
		}, "linux/arm64: machine-controller: machine: got EM_X86_64, want EM_AARCH64"},
		"Dynamic": {"a program that needs a loader", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, compile(binaries, "mcm-kubevirt", "amd64", "-buildmode=pie"))
		}, "mcm-kubevirt: not statically linked: it has a PT_INTERP"},
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
			one, other := filepath.Join(binaries, "linux-amd64", made.programs[0]), filepath.Join(binaries, "linux-amd64", made.programs[1])
			require.NoError(t, os.Rename(one, one+".old"))
			require.NoError(t, os.Rename(other, one))
			require.NoError(t, os.Rename(one+".old", other))
		}, "machine-controller: it is another program"},
		"Script": {"not a program at all", func(t *testing.T, binaries string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(binaries, "linux-amd64", "mcm-kubevirt"), []byte("#!/bin/sh\n"), 0o600))
		}, "mcm-kubevirt: not an ELF file"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			binaries, output := t.TempDir(), filepath.Join(t.TempDir(), "image")
			require.NoError(t, os.CopyFS(binaries, os.DirFS(built)))
			tc.change(t, binaries)

			require.ErrorContains(t, run(t.Context(), args(binaries, output), t.Output()), tc.says, tc.reason)
			require.NoDirExists(t, output)
		})
	}
}

// TestWrongImages changes the image before it is written.
func TestWrongImages(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(t *testing.T, config *v1.ConfigFile)
		says   string
	}{
		"Entrypoint": {func(_ *testing.T, c *v1.ConfigFile) { c.Config.Entrypoint = []string{"/mcm-kubevirt"} }, "entrypoint: got [/mcm-kubevirt]"},
		"Command":    {func(_ *testing.T, c *v1.ConfigFile) { c.Config.Cmd = []string{"--help"} }, "command: got [--help]"},
		"User":       {func(_ *testing.T, c *v1.ConfigFile) { c.Config.User = "" }, "user: got , want 65532:65532"},
		"Folder":     {func(_ *testing.T, c *v1.ConfigFile) { c.Config.WorkingDir = "/home" }, "working directory: got /home"},
		"Label":      {func(_ *testing.T, c *v1.ConfigFile) { c.Config.Labels["a"] = "b" }, "labels: got map[a:b"},
		"Time":       {func(_ *testing.T, c *v1.ConfigFile) { c.Created = v1.Time{} }, "created: got 0001"},
		"Platform":   {func(_ *testing.T, c *v1.ConfigFile) { c.Architecture = "s390x" }, "architecture: got s390x, want amd64"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			image, err := platformImage(filepath.Join(built, "linux-amd64"), "amd64", made)
			require.NoError(t, err)

			config, err := image.ConfigFile()
			require.NoError(t, err)

			config = config.DeepCopy()
			tc.change(t, config)

			image, err = mutate.ConfigFile(image, config)
			require.NoError(t, err)

			require.ErrorContains(t, checkConfig(image, "amd64", made), tc.says)
		})
	}
}

// TestOtherFiles adds a layer, like a base that is not empty.
func TestOtherFiles(t *testing.T) {
	t.Parallel()

	image, err := platformImage(filepath.Join(built, "linux-amd64"), "amd64", made)
	require.NoError(t, err)

	found, err := readFiles(image)
	require.NoError(t, err)
	require.NoError(t, checkFiles(t.Context(), platform{architecture: "amd64", files: found}, made))

	header := *found[0].header
	header.Name = "etc/passwd"
	more := append(found, file{header: &header}) //nolint:gocritic // Both slices are checked.
	require.ErrorContains(t, checkFiles(t.Context(), platform{architecture: "amd64", files: more}, made), "files: got [machine-controller mcm-kubevirt etc/passwd]")

	found[1].header.Mode = 0o755
	found[1].header.Uid = 1000
	err = checkFiles(t.Context(), platform{architecture: "amd64", files: found}, made)
	require.ErrorContains(t, err, "mcm-kubevirt: mode: got 755, want 555")
	require.ErrorContains(t, err, "owner: got 1000:0")
}

// TestBrokenLayouts requires an error that describes the defect.
func TestBrokenLayouts(t *testing.T) {
	t.Parallel()

	folder := filepath.Join(t.TempDir(), "image")
	require.NoError(t, run(t.Context(), args(built, folder), t.Output()))

	other := made
	other.version = "v1.2.4"
	_, err := check(t.Context(), folder, other)
	require.ErrorContains(t, err, "must name one image index, v1.2.4")

	path, err := layout.FromPath(folder)
	require.NoError(t, err)
	require.NoError(t, path.AppendIndex(empty.Index))
	_, err = check(t.Context(), folder, made)
	require.ErrorContains(t, err, "must name one image index")

	require.NoError(t, run(t.Context(), args(built, folder), t.Output()), "an existing layout is replaced")

	blobs, err := filepath.Glob(filepath.Join(folder, "blobs", "sha256", "*"))
	require.NoError(t, err)

	for _, blob := range blobs {
		if info, err := os.Stat(blob); err == nil && info.Size() > 1<<19 { // A layer.
			require.NoError(t, os.Truncate(blob, info.Size()-1))
		}
	}

	_, err = check(t.Context(), folder, made)
	require.ErrorContains(t, err, "the layout is broken")
}

func TestCommandLine(t *testing.T) {
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
