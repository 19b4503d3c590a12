// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// requireUnavailable requires an error that machine-controller-manager retries within seconds, and
// that names its origin.
func requireUnavailable(t *testing.T, method string, got outcome) {
	t.Helper()

	require.Nil(t, got.resp, method)

	read, ok := status.FromError(got.err)
	require.True(t, ok, "machine-controller-manager must be able to read %v", got.err)
	require.Equal(t, codes.Unavailable, read.Code(), method)
	require.True(t, strings.HasPrefix(read.Message(), driverrpc.TokenUnavailable+": "+method+" "), read.Message())
}

// TestClient_NoServer calls a driver that does not exist, until a timeout.
func TestClient_NoServer(t *testing.T) {
	t.Parallel()

	for method, call := range methods(dial(t, socketOf(t))) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		got := call(ctx)

		cancel()
		require.Error(t, got.err)
		requireUnavailable(t, method, got)
	}
}

// TestClient_OtherServer calls a gRPC server without a driver. Its Unimplemented must not reach
// machine-controller-manager, which would recreate every machine.
func TestClient_OtherServer(t *testing.T) {
	t.Parallel()

	socket := socketOf(t)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)

	server := grpc.NewServer()
	t.Cleanup(server.Stop)

	go func() { _ = server.Serve(listener) }() // It ends with the test.

	for method, call := range methods(dial(t, socket)) {
		got := call(t.Context())
		require.ErrorContains(t, got.err, "Unimplemented")
		requireUnavailable(t, method, got)
	}
}

// TestClient_TooLargeRequests verifies that a request that is too large is not reported as exhausted
// capacity, which gRPC's ResourceExhausted would mean to machine-controller-manager. The driver would
// accept each request.
func TestClient_TooLargeRequests(t *testing.T) {
	t.Parallel()

	client := connect(t, &scripted{create: func(context.Context) (*driver.CreateMachineResponse, error) {
		return &driver.CreateMachineResponse{ProviderID: "kubevirt://m", NodeName: "m"}, nil
	}})
	create := func(userData int) (*driver.CreateMachineResponse, error) {
		return client.CreateMachine(t.Context(), &driver.CreateMachineRequest{
			Machine: &v1alpha1.Machine{},
			Secret:  &corev1.Secret{Data: map[string][]byte{"userData": make([]byte, userData)}},
		})
	}

	resp, err := create(2 << 20)
	require.NoError(t, err, "the maximum size of two Secrets")
	require.Equal(t, "kubevirt://m", resp.ProviderID)

	resp, err = create(3 << 20)
	require.Nil(t, resp)
	requireUnavailable(t, "CreateMachine", outcome{err: err})
	require.ErrorContains(t, err, "3145728", "the error names the limit")
}

// TestRecoverPanics verifies that a panic does not end other calls, and checks its error.
func TestRecoverPanics(t *testing.T) {
	t.Parallel()

	d := respondWith(nil, true)
	d.create = func(context.Context) (*driver.CreateMachineResponse, error) { panic("the secret of the machine") }
	c := connect(t, d)

	_, err := c.CreateMachine(t.Context(), &driver.CreateMachineRequest{})
	requireUnavailable(t, "CreateMachine", outcome{err: err})
	require.ErrorContains(t, err, "Internal: the driver panicked")
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, err.Error(), ".go")

	_, err = c.GetMachineStatus(t.Context(), &driver.GetMachineStatusRequest{})
	require.NoError(t, err)
}

// TestRetryLost_ServerRestart stops a server during a call, and starts the next one.
func TestRetryLost_ServerRestart(t *testing.T) {
	t.Parallel()

	socket := socketOf(t)
	begun := make(chan struct{})
	first := &scripted{create: func(ctx context.Context) (*driver.CreateMachineResponse, error) {
		close(begun)
		<-ctx.Done()

		return nil, status.Error(codes.Unavailable, "cancelled")
	}}
	stop := serve(t, first, socket, optionsOf(prometheus.NewRegistry()))
	c := dial(t, socket)

	finished := make(chan outcome)

	go func() { finished <- methods(c)["CreateMachine"](t.Context()) }()

	<-begun

	now, cancel := context.WithCancel(t.Context())
	cancel()
	stop(now)
	serve(t, respondWith(nil, true), socket, optionsOf(prometheus.NewRegistry()))

	got := <-finished
	require.NoError(t, got.err)
	require.Equal(t, "p", got.resp.(*driver.CreateMachineResponse).ProviderID)
}

// TestRetryLost_LimitsAttempts sends a call to a driver that closes the connection on every call.
func TestRetryLost_LimitsAttempts(t *testing.T) {
	t.Parallel()

	var (
		calls atomic.Int32
		open  atomic.Pointer[net.Conn]
	)

	socket := socketOf(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)

	breaking := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		calls.Add(1)

		return (*open.Load()).Close()
	}))
	t.Cleanup(breaking.Stop)

	go func() { _ = breaking.Serve(&remembering{Listener: listener, last: &open}) }() // It ends with the test.

	got := methods(dial(t, socket))["DeleteMachine"](t.Context())
	require.Error(t, got.err)
	requireUnavailable(t, "DeleteMachine", got)
	require.Equal(t, int32(5), calls.Load())
}

// TestRetryLost_Cancelled has a server cancel a call before the driver sees it.
func TestRetryLost_Cancelled(t *testing.T) {
	t.Parallel()

	var calls atomic.Int32

	socket := socketOf(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)

	starved := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if calls.Add(1) == 1 {
			return context.Canceled
		}

		return stream.SendMsg(&driverv1.DeleteMachineResponse{})
	}))
	t.Cleanup(starved.Stop)

	go func() { _ = starved.Serve(listener) }() // It ends with the test.

	got := methods(dial(t, socket))["DeleteMachine"](t.Context())
	require.NoError(t, got.err)
	require.Equal(t, int32(2), calls.Load())
}

// remembering is a listener that records its last connection.
type remembering struct {
	net.Listener

	last *atomic.Pointer[net.Conn]
}

func (r *remembering) Accept() (net.Conn, error) {
	accepted, err := r.Listener.Accept()
	if err == nil {
		r.last.Store(&accepted)
	}

	return accepted, err
}

// TestNewServer_MaxCalls sends more calls than may run at once. None ends before all have arrived.
func TestNewServer_MaxCalls(t *testing.T) {
	t.Parallel()

	const most, many = 3, 12

	begun := make(chan struct{}, many)
	end := make(chan struct{})
	defer close(end)

	d := &scripted{create: func(context.Context) (*driver.CreateMachineResponse, error) {
		begun <- struct{}{}

		<-end

		return &driver.CreateMachineResponse{ProviderID: "p", NodeName: "n"}, nil
	}}
	registry := prometheus.NewRegistry()
	socket := socketOf(t)
	options := optionsOf(registry)
	options.MaxCalls = most
	serve(t, d, socket, options)

	// Each client has a connection of its own, so that calls wait at the server.
	errs := make(chan error, many)

	for range many {
		c := dial(t, socket)

		go func() {
			_, err := c.CreateMachine(t.Context(), &driver.CreateMachineRequest{})
			errs <- err
		}()
	}

	require.Eventually(t, func() bool { return callsAt(t, registry) == many }, time.Minute, time.Millisecond)

	for range most {
		<-begun
	}

	for left := many; left > 0; left-- {
		require.Empty(t, begun, "the next call begins when one has ended")
		end <- struct{}{}

		require.NoError(t, <-errs)

		if left > most {
			<-begun
		}
	}
}

// callsAt returns the number of calls that run or wait at a server.
func callsAt(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()

	families, err := registry.Gather()
	require.NoError(t, err)

	for _, family := range families {
		if family.GetName() == "mcm_kubevirt_driver_calls_running" {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}

	return 0
}

// TestServer_Health checks the health as kubelet and load balancers do, including while the server stops.
func TestServer_Health(t *testing.T) {
	t.Parallel()

	socket := socketOf(t)
	begun := make(chan struct{})
	end := make(chan struct{})
	stop := serve(t, &scripted{create: func(context.Context) (*driver.CreateMachineResponse, error) {
		close(begun)
		<-end

		return &driver.CreateMachineResponse{ProviderID: "p", NodeName: "n"}, nil
	}}, socket, optionsOf(prometheus.NewRegistry()))

	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() }) // The error does not matter.

	watch, err := grpc_health_v1.NewHealthClient(connection).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "gardener.machine.driver.v1.MachineDriver"})
	require.NoError(t, err)
	resp, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, resp.GetStatus())

	c := dial(t, socket)
	finished := make(chan outcome)

	go func() { finished <- methods(c)["CreateMachine"](t.Context()) }()

	<-begun

	stopped := make(chan struct{})

	go func() {
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		defer close(stopped)

		stop(limited)
	}()

	resp, err = watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, resp.GetStatus())
	require.NoError(t, watch.CloseSend())
	require.NoError(t, connection.Close())
	close(end)

	require.Equal(t, "n", (<-finished).resp.(*driver.CreateMachineResponse).NodeName, "calls in progress finish")
	<-stopped
}
