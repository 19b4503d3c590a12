// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()

	for text, local := range map[string]bool{"unix:///run/driver.sock": true, "tcp://:9443": false, "tcp://[::1]:9443": false} {
		endpoint, err := driverrpc.ParseEndpoint(text)
		require.NoError(t, err, text)
		require.Equal(t, local, endpoint.Local(), text)
	}

	for _, text := range []string{"", "/run/driver.sock", "unix://run/driver.sock", "tcp://host", "tcp://:1/x", "dns:///host:1", "http://host:1", "%"} {
		_, err := driverrpc.ParseEndpoint(text)
		require.ErrorContains(t, err, "endpoint", text)
	}
}

func TestListen_MissingFolder(t *testing.T) {
	t.Parallel()

	folder := filepath.Join(t.TempDir(), "missing")
	endpoint, err := driverrpc.ParseEndpoint("unix://" + folder + "/driver.sock")
	require.NoError(t, err)

	_, err = endpoint.Listen(t.Context())
	require.EqualError(t, err, "listen: folder "+folder+" does not exist: create it, or use a socket in another folder")
}

// abandon creates a socket like one left behind by a killed process.
func abandon(t *testing.T, path string) {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	require.NoError(t, err)

	unix, ok := listener.(*net.UnixListener)
	require.True(t, ok)
	unix.SetUnlinkOnClose(false)
	require.NoError(t, listener.Close())
}

func TestListen_Sockets(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		before func(t *testing.T, path string)
		err    string
	}{
		"nothing": {"the normal start", func(*testing.T, string) {}, ""},
		"stale":   {"the previous process was killed", abandon, ""},
		"living": {"another process uses it", func(t *testing.T, path string) {
			t.Helper()

			listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() }) // The test's folder is removed, too.
		}, "another process is already listening on"},
		"file": {"it may contain data", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}, "is not a socket"},
		"link": {"its target may be any file", func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Symlink("/etc/passwd", path))
		}, "is not a socket"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			folder, err := os.MkdirTemp("", "s") // The test's own would be too long for a socket's path.
			require.NoError(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(folder) }) // It is in the system's folder for temporary files.

			path := filepath.Join(folder, "driver.sock")
			tc.before(t, path)

			endpoint, err := driverrpc.ParseEndpoint("unix://" + path)
			require.NoError(t, err)

			listener, err := endpoint.Listen(t.Context())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)

				return
			}

			require.NoError(t, err, tc.reason)

			found, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600)|os.ModeSocket, found.Mode())

			connection, err := new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), "unix", path)
			require.NoError(t, err)
			require.NoError(t, connection.Close())

			require.NoError(t, listener.Close())

			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
