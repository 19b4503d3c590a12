// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/guest"
)

// packageManager takes the place of mmdebstrap, which needs a network: it mounts a file system in the folder that it would fill, its last
// argument but one, and does not end.
const packageManager = `#!/bin/sh
while [ $# -gt 2 ]; do shift; done
mkdir -p "$1"
mount -t tmpfs lab "$1"
touch "$1/file"
tail -F "$1/file" & wait
`

// TestCancelledBuild interrupts the build of the guests' image while a file system is mounted in it, and
// requires that no process, mount or file of it is left.
func TestCancelledBuild(t *testing.T) {
	cache := t.TempDir()
	programs := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(programs, "mmdebstrap"), []byte(packageManager), 0o700))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	failed := make(chan error, 1)

	go func() {
		_, err := guest.Ensure(ctx, guest.Parts{}, io.Discard)
		failed <- err
	}()

	harness.Eventually(t, "the file system is mounted, and used", func(context.Context) (bool, error) {
		return len(failed) > 0 || len(procFilesWith(t, "cmdline", "tail\x00-F\x00"+cache)) > 0, nil
	})
	require.Empty(t, failed, "the build has not ended")
	require.NotEmpty(t, procFilesWith(t, "mountinfo", cache))
	cancel()

	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, procFilesWith(t, "mountinfo", cache))
	require.Empty(t, procFilesWith(t, "cmdline", cache))

	left, err := filepath.Glob(filepath.Join(cache, "*", "lab", "guest-*", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// procFilesWith returns the files of a name in /proc/PID that contain a text.
func procFilesWith(t *testing.T, name, text string) []string {
	t.Helper()

	files, err := filepath.Glob("/proc/[0-9]*/" + name)
	require.NoError(t, err)

	var found []string

	for _, file := range files {
		data, err := os.ReadFile(filepath.Clean(file))
		if err == nil && strings.Contains(string(data), text) { // otherwise the process has ended
			found = append(found, file)
		}
	}

	return found
}
