// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
)

// Way is one way for a machine controller to reach the driver.
type Way struct {
	Name  string
	reach func(*testing.T, driver.Driver) driver.Driver
}

// Ways returns all ways to reach the driver.
func Ways() []Way {
	return []Way{
		{"InProcess", func(_ *testing.T, d driver.Driver) driver.Driver { return d }},
		{"UnixSocket", overSocket},
		{"MutualTLS", overTLS},
	}
}

// EveryWay runs a test once per way, with the same expectations for each.
func EveryWay(t *testing.T, test func(t *testing.T, newDriver func(Settings) driver.Driver)) {
	t.Helper()

	for _, w := range Ways() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			test(t, func(o Settings) driver.Driver { return w.reach(t, NewDriver(o)) })
		})
	}
}

func overSocket(t *testing.T, d driver.Driver) driver.Driver {
	t.Helper()

	path := NewSocket(t)
	serve(t, d, "unix://"+path, insecure.NewCredentials())

	return Dial(t, "unix://"+path, insecure.NewCredentials())
}

// NewSocket returns a path that is short enough for a socket.
func NewSocket(t *testing.T) string {
	t.Helper()

	folder, err := os.MkdirTemp("", "driver-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })

	return filepath.Join(folder, "driver.sock")
}

func overTLS(t *testing.T, d driver.Driver) driver.Driver {
	t.Helper()

	const server, client = "driver.example.com", "machine-controller"

	authority := certificates.NewAuthority(t)
	serverCredentials, err := driverrpc.ServerCredentials(authority.Issue(t, t.TempDir(), certificates.Server(server)), []string{client})
	require.NoError(t, err)
	clientCredentials, err := driverrpc.ClientCredentials(authority.Issue(t, t.TempDir(), certificates.Client(client)), server)
	require.NoError(t, err)

	_, port, err := net.SplitHostPort(serve(t, d, "tcp://127.0.0.1:0", serverCredentials).String())
	require.NoError(t, err)

	return Dial(t, "dns:///127.0.0.1:"+port, clientCredentials)
}

// serve serves a driver until the test ends, and returns its address.
func serve(t *testing.T, d driver.Driver, at string, creds grpccredentials.TransportCredentials) net.Addr {
	t.Helper()

	endpoint, err := driverrpc.ParseEndpoint(at)
	require.NoError(t, err)

	listener, err := endpoint.Listen(t.Context())
	require.NoError(t, err)

	const most = 200 // As in mcm-kubevirt serve.

	server, err := driverrpc.NewServer(d, driverrpc.ServerOptions{Credentials: creds, MaxCalls: most, Metrics: prometheus.NewRegistry()})
	require.NoError(t, err)

	served := make(chan error, 1)

	go func() { served <- server.Serve(listener) }()

	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		server.Stop(now)
		require.NoError(t, <-served)
	})

	return listener.Addr()
}

// Dial returns a client of a driver that is served over gRPC, until the test ends.
func Dial(t *testing.T, endpoint string, creds grpccredentials.TransportCredentials) driver.Driver {
	t.Helper()

	client, err := driverrpc.NewClient(endpoint, creds)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })

	return client
}
