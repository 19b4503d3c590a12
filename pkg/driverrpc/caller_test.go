// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// TestProcessID checks the ID of the calling process that a driver sees: it is the
// same in every call of a client, and differs between clients.
func TestProcessID(t *testing.T) {
	t.Parallel()

	var received caller.ID

	d := respondWith(nil, true)
	socket := socketOf(t)
	d.remove = func(ctx context.Context) (*driver.DeleteMachineResponse, error) {
		received = caller.Of(ctx)

		return &driver.DeleteMachineResponse{}, nil
	}
	serve(t, d, socket, optionsOf(prometheus.NewRegistry()))

	call := func(c *driverrpc.Client) caller.ID {
		_, err := c.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{})
		require.NoError(t, err)

		return received
	}

	before := dial(t, socket)
	after := dial(t, socket)
	first := call(before)
	require.Equal(t, first, call(before))
	require.NotEqual(t, first, call(after))
	require.NotContains(t, []caller.ID{caller.ThisProcess, caller.Unknown}, first)

	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })

	for name, sent := range map[string][]string{
		"nothing":  nil,
		"empty":    {driverrpc.ProcessKey, ""},
		"short":    {driverrpc.ProcessKey, "1"},
		"too long": {driverrpc.ProcessKey, strings.Repeat("a", 65)},
		"two":      {driverrpc.ProcessKey, strings.Repeat("a", 20), driverrpc.ProcessKey, strings.Repeat("b", 20)},
	} {
		received = caller.ThisProcess
		ctx := metadata.AppendToOutgoingContext(t.Context(), sent...)
		_, err = driverv1.NewMachineDriverClient(connection).DeleteMachine(ctx, &driverv1.DeleteMachineRequest{})
		require.NoError(t, err, name)
		require.Equal(t, caller.Unknown, received, name)
	}
}
