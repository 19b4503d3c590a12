// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBuild_LeavesNothingWhenInterrupted interrupts the go command while its compilers, which would never end, compile
// the standard library.
func TestBuild_LeavesNothingWhenInterrupted(t *testing.T) { //nolint:paralleltest // sets environment variables
	root := t.TempDir()
	temporary := t.TempDir()
	work := filepath.Join(root, "bin", ".go-build-*")
	t.Setenv("GOCACHE", t.TempDir()) // forces a compilation
	t.Setenv("TMPDIR", temporary)
	compiler := filepath.Join(root, "compiler")
	compilers := filepath.Join(root, "pids")
	t.Setenv("GOFLAGS", "-toolexec="+compiler)
	require.NoError(t, os.WriteFile(compiler, []byte(`#!/bin/sh
case "$*" in *-V=full*) exec "$@" ;; esac
echo $$ >>`+compilers+`
exec tail -f /dev/null >/dev/null
`), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "main.go"), []byte("package compile\n\nimport _ \"net/http\"\n\nfunc main() {}\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	built := make(chan error, 1)
	go func() {
		built <- Build(ctx, io.Discard, Program{Name: "x", Root: root, Packages: ".", Output: "bin/x"})
	}()
	folders := func() []string {
		var all []string
		for _, parent := range []string{temporary, work} {
			found, err := filepath.Glob(filepath.Join(parent, "go-build*", "*"))
			require.NoError(t, err)
			all = append(all, found...)
		}
		return all
	}
	started := func() []string {
		pids, _ := os.ReadFile(compilers) // There are none before the first one.
		return strings.Fields(string(pids))
	}
	t.Cleanup(func() {
		for _, pid := range started() {
			if id, err := strconv.Atoi(pid); err == nil && running(pid) {
				require.NoError(t, syscall.Kill(id, syscall.SIGKILL))
			}
		}
	})
	require.Eventually(t, func() bool { return len(folders()) > 0 && len(started()) > 0 }, time.Minute, 10*time.Millisecond, "go compiles")
	cancel()
	require.ErrorIs(t, <-built, context.Canceled)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, folders())
	require.Eventually(t, func() bool { return !slices.ContainsFunc(started(), running) }, time.Minute, 10*time.Millisecond, "the compilers end")
}

// running reports whether a process has not ended. A zombie has no arguments.
func running(pid string) bool {
	arguments, err := os.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && len(arguments) > 0
}
