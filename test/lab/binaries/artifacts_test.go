// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEnsureArtifact_MaxAge unpacks a file that is older than the artifact may become: its age is that of the artifact.
func TestEnsureArtifact_MaxAge(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	const maxAge = time.Hour

	produced := 0
	a := Artifact{Name: "a", Set: "a", Hash: "1", Outputs: []string{"file"}, MaxAge: maxAge, Produce: func(_ context.Context, into string) error {
		produced++
		file := filepath.Join(into, "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		return os.Chtimes(file, time.Unix(0, 0), time.Unix(0, 0))
	}}

	for range 2 {
		folder, err := EnsureArtifact(t.Context(), io.Discard, a)
		require.NoError(t, err)

		built, err := a.Built()
		require.NoError(t, err)
		require.True(t, built)
		require.Equal(t, 1, produced)
		require.NoError(t, a.expire(folder, time.Now().Add(maxAge/2)))
		require.FileExists(t, filepath.Join(folder, "file"))
	}

	folder, err := EnsureArtifact(t.Context(), io.Discard, a)
	require.NoError(t, err)
	require.NoError(t, a.expire(folder, time.Now().Add(maxAge)))
	require.NoFileExists(t, filepath.Join(folder, "file"))

	asides := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, expired+"*-file"))
		require.NoError(t, err)

		return found
	}
	require.Len(t, asides(), 1, "a lab may use it")
	require.NoError(t, a.expire(folder, time.Now().Add(maxAge+keepExpiredFor/2)))
	require.Len(t, asides(), 1)
	require.NoError(t, a.expire(folder, time.Now().Add(maxAge+keepExpiredFor)))
	require.Empty(t, asides())
}
