// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreePorts_AreBelowOutgoing(t *testing.T) {
	t.Parallel()
	const n, firstOutgoing = 50, 32768
	ports, err := FreePorts(t.Context(), n)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range ports {
		require.Less(t, port, firstOutgoing)
		seen[port] = true
	}
	require.Len(t, seen, n)
}

// A port is reserved before its component starts, while it listens, and after it has ended.
func TestFreePorts_AreReserved(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(t.Context(), 1)
	require.NoError(t, err)
	port := ports[0]
	require.Error(t, reserve(t.Context(), port))
	for _, host := range []string{"127.0.0.1", ""} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		require.NoError(t, err, "a component listens")
		require.Error(t, reserve(t.Context(), port))
		require.NoError(t, listener.Close())
		require.Error(t, reserve(t.Context(), port))
	}
}

func TestFreePorts_TakenByOthers(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	require.Error(t, reserve(t.Context(), address.Port))
}
