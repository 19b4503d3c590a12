// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadDockerfile requires what docs/development.md promises to users of the image.
func TestReadDockerfile(t *testing.T) {
	t.Parallel()

	d, err := readDockerfile("../Dockerfile")
	require.NoError(t, err)
	require.Equal(t, []string{"machine-controller", "mcm-kubevirt"}, d.programs)
	require.EqualValues(t, 0o555, d.mode, "all users can execute the programs, and none can modify them")
	require.Equal(t, []string{"/machine-controller"}, d.entrypoint)
	require.Equal(t, "65532:65532", d.user, "the kubelet can verify only a numeric user to be non-root")
	require.Equal(t, "/", d.workingDir)

	r := release{definition: d, architectures: supported, version: "v1.2.3", revision: "4567", created: time.Unix(89, 0).UTC()}
	require.Equal(t, map[string]string{
		"org.opencontainers.image.title":    "machine-controller-manager-provider-kubevirt",
		"org.opencontainers.image.source":   "https://github.com/gardener/machine-controller-manager-provider-kubevirt",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  "v1.2.3",
		"org.opencontainers.image.revision": "4567",
		"org.opencontainers.image.created":  "1970-01-01T00:01:29Z",
	}, r.imageLabels())
}

// dockerfiles are the Dockerfiles of all images.
var dockerfiles = []string{"../Dockerfile", "../extension/Dockerfile", "../extension/Dockerfile.admission"}

// TestReadDockerfile_Extension requires each image to start the program of its name with the same user
// and file mode as the driver's image, and `make image` to write it. The extension's image also
// contains the loopback proxy and cloud-controller-manager, which run in the pods that the extension deploys.
func TestReadDockerfile_Extension(t *testing.T) {
	t.Parallel()

	driver, err := readDockerfile(dockerfiles[0])
	require.NoError(t, err)

	programs := []string{}

	for _, file := range dockerfiles[1:] {
		d, err := readDockerfile(file)
		require.NoError(t, err)
		require.Equal(t, []string{"/" + d.programs[0]}, d.entrypoint)
		require.Equal(t, d.programs[0], d.labels["org.opencontainers.image.title"])
		require.Equal(t, []any{driver.mode, driver.user, driver.workingDir}, []any{d.mode, d.user, d.workingDir})
		require.Contains(t, read(t, "../Makefile"), " --dockerfile="+strings.TrimPrefix(file, "../")+" ")

		programs = append(programs, d.programs...)
	}

	require.Equal(t, []string{"gardener-extension-provider-kubevirt", "kubevirt-provider-proxy", "kubevirt-cloud-controller-manager", "gardener-extension-admission-kubevirt"}, programs)
}

// TestParseDockerfile_UnknownInstructions rejects a Dockerfile that `make image` would build only in
// part.
func TestParseDockerfile_UnknownInstructions(t *testing.T) {
	t.Parallel()

	given := read(t, "../Dockerfile")

	for _, tc := range []struct{ reason, from, to, says string }{
		{"another base", "FROM scratch", "FROM debian", "FROM debian: the image has no base"},
		{"a command", "WORKDIR /", "RUN true", "RUN true: this instruction is not supported"},
		{"two layers", "WORKDIR /", "COPY --chmod=0555 bin/linux-$TARGETARCH/x /", "one COPY is supported"},
		{"a file of the repository", "bin/linux-$TARGETARCH/mcm-kubevirt", "README.md", "README.md is not in bin/linux-$TARGETARCH"},
		{"a shell", `ENTRYPOINT ["/machine-controller"]`, "ENTRYPOINT /machine-controller", "ENTRYPOINT /machine-controller: "},
		{"a label without quotes", `title="machine-controller-manager-provider-kubevirt"`, "title=x", "cannot read org.opencontainers.image.title=x"},
		{"no user", "USER 65532:65532", "", "the Dockerfile lacks COPY, ENTRYPOINT or USER"},
	} {
		require.Contains(t, given, tc.from)

		_, err := parseDockerfile(strings.Replace(given, tc.from, tc.to, 1))
		require.ErrorContains(t, err, tc.says, tc.reason)
	}

	_, err := readDockerfile("missing")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestReadDockerfile_BuildContext checks that .dockerignore includes exactly the files that the
// Dockerfiles copy.
func TestReadDockerfile_BuildContext(t *testing.T) {
	t.Parallel()

	want := []string{"*"}

	for _, file := range dockerfiles {
		d, err := readDockerfile(file)
		require.NoError(t, err)

		for _, program := range d.programs {
			want = append(want, "!bin/linux-*/"+program)
		}
	}

	var given []string

	for line := range strings.Lines(read(t, "../.dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			given = append(given, line)
		}
	}

	require.Equal(t, want, given)
}

// TestMakefile_BuildsPrograms requires images to have the programs of `make build`. test/lab/compile has a test of the flags.
func TestMakefile_BuildsPrograms(t *testing.T) {
	t.Parallel()

	makefile := read(t, "../Makefile")
	require.Contains(t, makefile, "\nGOBUILD := $(BUILD) -ldflags '$(LDFLAGS)'\n")
	require.Contains(t, makefile, "$(GOBUILD) -o bin/linux-$$architecture/ ./cmd/...;", "make image")
}

func read(t *testing.T, path string) string {
	t.Helper()

	text, err := os.ReadFile(path)
	require.NoError(t, err)

	return string(text)
}
