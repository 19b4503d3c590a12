// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"net"
	"path"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// TestWithTimeout checks the deadlines that arrive if the caller's contexts have none, like those of
// machine-controller-manager.
func TestWithTimeout(t *testing.T) {
	t.Parallel()

	socket := socketOf(t)
	left := make(chan time.Duration, 1)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, call grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(call)
		deadline, ok := call.Context().Deadline()
		require.True(t, ok, method)

		left <- time.Until(deadline)

		return grpcstatus.Error(grpccodes.Internal, path.Base(method))
	}))
	t.Cleanup(server.Stop)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)

	go func() { _ = server.Serve(listener) }() // It ends with the test.

	timeouts := map[string]time.Duration{
		"CreateMachine":     5 * time.Minute,
		"InitializeMachine": 5 * time.Minute,
		"DeleteMachine":     10 * time.Minute,
		"GetMachineStatus":  2 * time.Minute,
		"ListMachines":      5 * time.Minute,
		"GetVolumeIDs":      30 * time.Second,
	}

	for method, call := range methods(dial(t, socket)) {
		require.ErrorContains(t, call(t.Context()).err, "Internal: "+method)

		actual := <-left
		require.LessOrEqual(t, actual, timeouts[method], method)
		require.Greater(t, actual, timeouts[method]/2, "%s: no call takes that long in a test", method)
	}
}

// TestLimitDuration calls with a third-party client that does not set a deadline.
func TestLimitDuration(t *testing.T) {
	t.Parallel()

	socket := socketOf(t)
	left := make(chan time.Duration, 1)
	serve(t, &scripted{create: func(ctx context.Context) (*driver.CreateMachineResponse, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)

		return &driver.CreateMachineResponse{}, nil
	}}, socket, optionsOf(prometheus.NewRegistry()))

	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })

	_, err = driverv1.NewMachineDriverClient(connection).CreateMachine(t.Context(), &driverv1.CreateMachineRequest{})
	require.NoError(t, err)

	actual := <-left
	require.LessOrEqual(t, actual, 5*time.Minute)
	require.Greater(t, actual, time.Minute)
}
