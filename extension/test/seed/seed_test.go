// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestInterruptedStart requires an interrupted start to leave nothing.
func TestInterruptedStart(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := Start(ctx, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "logs in")

	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestFailedStart requires the logs of the processes that a failed start has started, and nothing without them.
func TestFailedStart(t *testing.T) {
	t.Parallel()

	for started, want := range map[bool]string{true: "logs in ", false: ""} {
		folder := filepath.Join(t.TempDir(), "seed")
		require.NoError(t, os.Mkdir(folder, 0o700))

		s := &Seed{Folder: folder, group: process.NewGroup(folder)}

		if started {
			_, err := s.group.Start(process.Spec{Name: "a", Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}})
			require.NoError(t, err)
		}

		err := s.abort(t.Context(), io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, want)

		if started {
			require.FileExists(t, filepath.Join(folder, "a.log"))
		} else {
			require.NoDirExists(t, folder)
		}
	}
}
