// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHottest profiles this process, which computes in one function.
func TestHottest(t *testing.T) {
	served := http.NewServeMux()
	served.HandleFunc("/debug/pprof/profile", pprof.Profile)

	server := httptest.NewServer(served)
	defer server.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	go compute(ctx)

	address := strings.TrimPrefix(server.URL, "http://")
	file := filepath.Join(t.TempDir(), "profile")
	require.NoError(t, Profile(t.Context(), address, file, time.Second))

	text, err := Hottest(t.Context(), file)
	require.NoError(t, err)

	own, all, found := strings.Cut(text, "\n\n")
	require.True(t, found, text)
	require.Contains(t, own, "test/lab/process.compute")
	require.NotContains(t, own, "sha256", "what a function calls is in its own time")
	require.Contains(t, all, "sha256")

	require.ErrorContains(t, Profile(t.Context(), address+"/nowhere", file, time.Second), "404")
	require.Error(t, Profile(t.Context(), address, t.TempDir(), time.Second), "the file is a folder")

	_, err = Hottest(t.Context(), t.TempDir())
	require.Error(t, err)
}

func compute(ctx context.Context) {
	for sum := [sha256.Size]byte{}; ctx.Err() == nil; {
		sum = sha256.Sum256(sum[:])
	}
}
