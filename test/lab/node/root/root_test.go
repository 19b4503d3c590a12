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
	const debian, mirrored = "http://deb.debian.org/debian", "http://mirror.example.com/debian"
	for name, test := range map[string]struct {
		reason  string
		sources string // the file in the format deb822; empty: none
		list    string // the file of lines; empty: none
		want    string
	}{
		"none":     {reason: "this machine may be no Debian", want: debian},
		"deb822":   {reason: "the first source is that of the suite", sources: "Types: deb\n# a comment\nURIs: http://mirror.example.com/debian\nSuites: x\n", want: mirrored},
		"several":  {reason: "a field may have several addresses", sources: "Types: deb\nURIs: http://security.example.com/debian-security http://mirror.example.com/debian/\n", want: mirrored},
		"security": {reason: "it is another archive", sources: "URIs: http://mirror.example.com/debian-security\n\nURIs: https://mirror.example.com/debian\n", want: "https://mirror.example.com/debian"},
		"cloud":    {reason: "images for clouds name a list of mirrors, which mmdebstrap cannot use", sources: "URIs: mirror+file:///etc/apt/mirrors/debian.list\n", want: debian},
		"lines":    {reason: "the older format", list: "# deb http://old.example.com/debian x main\ndeb [trusted=yes] http://mirror.example.com/debian x main\n", want: mirrored},
		"both":     {reason: "the newer format is read first", sources: "URIs: http://mirror.example.com/debian\n", list: "deb http://old.example.com/debian x main\n", want: mirrored},
		"second":   {reason: "the first file names no mirror", sources: "URIs: mirror+file:///etc/apt/mirrors/debian.list\n", list: "deb http://mirror.example.com/debian x main\n", want: mirrored},
		"another":  {reason: "Ubuntu's mirrors have no Debian", list: "deb http://archive.ubuntu.com/ubuntu x main\n", want: debian},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for file, text := range map[string]string{"sources": test.sources, "list": test.list} {
				if text != "" {
					require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600))
				}
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

func TestVersions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := Versions(filepath.Join(folder, "root"))
	require.ErrorContains(t, err, "read the versions of packages")
	require.NoError(t, os.WriteFile(filepath.Join(folder, versionsFile), []byte("containerd\t1.7.24~ds1-6\nlibc6:amd64\t2.41-12\nrunc\t1.1.15\n"), 0o600))
	found, err := Versions(filepath.Join(folder, "root"), "runc", "libc6")
	require.NoError(t, err)
	require.Equal(t, []string{"libc6 2.41-12", "runc 1.1.15"}, found)
}
