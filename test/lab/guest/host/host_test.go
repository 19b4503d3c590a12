// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const install = "apt-get install --no-install-recommends "
	for name, test := range map[string]struct {
		reason   string
		platform string
		user     int
		lacks    []string
		want     string // empty: guests can run
	}{
		"everything":     {reason: "no requirement beyond the list", platform: "linux/amd64"},
		"one program":    {reason: "its package is named", platform: "linux/amd64", lacks: []string{"xorrisofs"}, want: "it lacks xorrisofs. On Debian 12, install them with: " + install + "xorriso"},
		"a file":         {reason: "some packages contain no program", platform: "linux/amd64", lacks: []string{"GRUB for BIOS"}, want: install + "grub-pc-bin"},
		"two of one":     {reason: "a package is named once", platform: "linux/amd64", lacks: []string{"ssh", "ssh-keygen"}, want: "it lacks ssh, ssh-keygen. On Debian 12, install them with: " + install + "openssh-client"},
		"two":            {reason: "one command installs all packages", platform: "linux/amd64", lacks: []string{"qemu-img", "mmdebstrap"}, want: install + "qemu-utils mmdebstrap"},
		"a user":         {reason: "mmdebstrap creates files of several users", platform: "linux/amd64", user: 1000, want: "only root"},
		"user, packages": {reason: "packages come first: without them, root cannot run guests either", platform: "linux/amd64", user: 1000, lacks: []string{"sfdisk"}, want: install + "fdisk"},
		"arm64":          {reason: "the guests' image has Debian's kernel for amd64", platform: "linux/arm64", want: "Linux on amd64"},
		"darwin":         {reason: "guests run in Linux namespaces", platform: "darwin/amd64", want: "Linux on amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := machine{platform: test.platform, user: test.user, has: func(p program) bool { return !slices.Contains(test.lacks, p.name) }}.check()
			if test.want == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorIs(t, err, ErrMissing)
			require.ErrorContains(t, err, test.want, test.reason)
			require.True(t, len(test.lacks) == 0 || strings.HasSuffix(err.Error(), test.want), "%s: %v", test.reason, err)
		})
	}
}

func TestInstalled(t *testing.T) { //nolint:paralleltest // sets an environment variable
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	file := filepath.Join(folder, "lab-program")
	require.False(t, program{name: "lab-program"}.installed())
	require.False(t, program{name: "lab", file: file}.installed())
	require.NoError(t, os.WriteFile(file, nil, 0o700))
	require.True(t, program{name: "lab-program"}.installed())
	require.True(t, program{name: "lab", file: file}.installed())
}

// TestWorkflowInstallsWhatIsRequired requires the weekly workflow to install every package that Check
// would name.
func TestWorkflowInstallsWhatIsRequired(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../.github/workflows/weekly.yaml")
	require.NoError(t, err)
	_, job, found := strings.Cut(string(data), "\n  guest:\n")
	require.True(t, found)
	for _, p := range programs() {
		require.Contains(t, strings.Fields(job), p.debian, p.name)
	}
	require.Contains(t, job, "LAB_GUEST: required")
}
