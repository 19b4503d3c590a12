// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package root

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMirror(t *testing.T) {
	t.Parallel()
	const debian = "http://deb.debian.org/debian"
	for name, test := range map[string]struct {
		reason string
		file   string // the name of a file, or ""
		text   string
		want   string
	}{
		"none":    {reason: "this machine may be no Debian", want: debian},
		"deb822":  {reason: "the first source is that of the suite", file: "sources", text: "Types: deb\n# a comment\nURIs: http://mirror.example.com/debian\nSuites: x\n", want: "http://mirror.example.com/debian"},
		"list":    {reason: "the older format", file: "list", text: "# deb http://old.example.com/debian x main\ndeb [trusted=yes] http://mirror.example.com/debian x main\n", want: "http://mirror.example.com/debian"},
		"another": {reason: "Ubuntu's mirrors have no Debian", file: "list", text: "deb http://archive.ubuntu.com/ubuntu x main\n", want: debian},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if test.file != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, test.file), []byte(test.text), 0o600))
			}
			found, err := mirror(filepath.Join(folder, "sources"), filepath.Join(folder, "list"))
			require.NoError(t, err)
			require.Equal(t, test.want, found, test.reason)
		})
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debian/dists/trixie/InRelease" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	require.NoError(t, reach(t.Context(), server.URL+"/debian"))
	require.ErrorContains(t, reach(t.Context(), server.URL+"/ubuntu"), "404 Not Found; name a mirror with trixie")
	server.Close()
	require.ErrorContains(t, reach(t.Context(), server.URL+"/debian"), "name a mirror that can be reached")
}
