// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestCancelledBuild interrupts the build of the guests' image while file systems are mounted in it, and
// requires that no process, mount or file of it is left.
func TestCancelledBuild(t *testing.T) {
	proves(t, "an interrupted build of the image leaves no process, mount or file")

	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	failed := make(chan error, 1)

	go func() {
		_, err := guest.EnsureImage(ctx, harness.Lab().Binaries.Kubelet, io.Discard)
		failed <- err
	}()

	harness.Eventually(t, "a file system is mounted in the image's folder", func(context.Context) (bool, error) {
		return len(failed) > 0 || len(procFilesWith(t, "mountinfo", cache)) > 0, nil
	})
	require.Empty(t, failed, "the build has not ended")
	require.NotEmpty(t, processesOf(t, cache))
	cancel()

	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, procFilesWith(t, "mountinfo", cache))
	require.Empty(t, processesOf(t, cache))

	left, err := filepath.Glob(filepath.Join(cache, "*", "lab", "guest-*", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestStoppedImport stops a hypervisor, and deletes a volume, while importers run, and requires that the
// importers end with everything that they have started.
func TestStoppedImport(t *testing.T) {
	proves(t, "importers end with the lab, and with their volume")

	dir := t.TempDir()
	importer := filepath.Join(dir, "importer")
	// CDI's importer starts programs, too: qemu-img and nbdkit.
	require.NoError(t, os.WriteFile(importer, []byte("#!/bin/sh\ntail -F "+dir+"/never & wait\n"), 0o700))

	group := process.NewGroup(t.TempDir())
	t.Cleanup(func() { require.NoError(t, group.Stop(context.WithoutCancel(t.Context()))) })

	h, err := guest.New(t.Context(), guest.Options{Dir: filepath.Join(dir, "guests"), LogDir: t.TempDir(), Group: group, Importer: importer})
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Stop(context.WithoutCancel(t.Context())) }) // a second call is harmless

	running := func(want int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			return len(procFilesWith(t, "cmdline", "tail\x00-F\x00"+dir)) == want, nil
		}
	}

	for _, volume := range []string{"deleted", "kept"} {
		_, ended := h.Import(hypervisor.ImporterRun{ID: "run-of-" + volume, Volume: volume})
		require.False(t, ended)
	}

	harness.Eventually(t, "both importers run", running(2))
	require.NoError(t, h.DeleteVolume("deleted"))
	harness.Eventually(t, "one importer runs", running(1))
	require.Len(t, processesOf(t, filepath.Join(dir, "guests", "volumes", "kept")), 3, "unshare, the shell as its init, and the importer")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, h.Stop(ctx))
	harness.Eventually(t, "no importer runs", running(0))
	require.Empty(t, processesOf(t, dir))
}

// processesOf returns the folders in /proc of processes whose arguments or root folder contain a path.
func processesOf(t *testing.T, path string) []string {
	t.Helper()

	found := procFilesWith(t, "cmdline", path)

	roots, err := filepath.Glob("/proc/[0-9]*/root")
	require.NoError(t, err)

	for _, link := range roots {
		if root, err := os.Readlink(link); err == nil && strings.HasPrefix(root, path) {
			found = append(found, filepath.Dir(link))
		}
	}

	return found
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
