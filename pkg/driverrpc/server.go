// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

const (
	// handshakeTimeout bounds the time for a client to authenticate.
	handshakeTimeout = 10 * time.Second
	// connectionAge is the age at which a client has to reconnect, so that rotated certificates and
	// authorities take effect. Calls in progress finish first.
	connectionAge = time.Hour
	// minPingInterval is the minimum interval between the pings of a client.
	minPingInterval = 10 * time.Second
)

// Info identifies a driver.
type Info struct {
	// Name is the provider that a MachineClass names.
	Name string
	// Version is the version of the binary.
	Version string
}

// ServerOptions configures a server. All fields are required.
type ServerOptions struct {
	// Info is the response of GetInfo.
	Info Info
	// Credentials authenticates the clients of every connection.
	Credentials credentials.TransportCredentials
	// MaxCalls is the maximum number of concurrent calls; a client with a certificate may use half
	// of them. Other calls wait until their deadlines.
	MaxCalls int
	// Metrics registers the server's metrics.
	Metrics prometheus.Registerer
}

// Server serves a driver over gRPC, together with gRPC's health service. It does not serve reflection.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

// NewServer returns a server for a driver.
func NewServer(d driver.Driver, o ServerOptions) (*Server, error) {
	metrics := newMetrics()
	if err := errors.Join(o.Metrics.Register(metrics.duration), o.Metrics.Register(metrics.running)); err != nil {
		return nil, fmt.Errorf("register the server's metrics: %w", err)
	}

	inFlight := newInFlightLimiter()
	s := &Server{
		grpc: grpc.NewServer(
			grpc.InTapHandle(inFlight.tap), grpc.StatsHandler(inFlight),
			grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
			grpc.Creds(o.Credentials),
			grpc.ChainUnaryInterceptor(metrics.observe, recoverPanics, receiveProcessID, limitDuration, limitConcurrency(o.MaxCalls)),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.MaxRecvMsgSize(maxRequest),
			grpc.MaxSendMsgSize(maxResponse),
			// The client queues further calls of its connection.
			grpc.MaxConcurrentStreams(uint32(o.MaxCalls)), //nolint:gosec // The value of a flag, which is small.
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout, MaxConnectionAge: connectionAge}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
			grpc.WaitForHandlers(true),
		),
		health: health.NewServer(),
	}

	driverv1.RegisterMachineDriverServer(s.grpc, &service{driver: d, info: o.Info})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(driverv1.MachineDriver_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)

	return s, nil
}

// Serve accepts connections until Stop is called, and closes the listener.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve: %w", err)
	}

	return nil
}

// Stop rejects new calls and waits for calls in progress until ctx ends. It then cancels the rest:
// their clients lose the connection and retry the calls with the next process.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()

	cancel := context.AfterFunc(ctx, s.grpc.Stop)
	defer cancel()

	s.grpc.GracefulStop()
}

// service implements driverv1.MachineDriverServer for a driver.
type service struct {
	driverv1.UnimplementedMachineDriverServer

	driver driver.Driver
	info   Info
}

// CreateMachine implements driverv1.MachineDriverServer.
func (s *service) CreateMachine(ctx context.Context, req *driverv1.CreateMachineRequest) (*driverv1.CreateMachineResponse, error) {
	return createMachine.serve(ctx, req, s.driver.CreateMachine)
}

// InitializeMachine implements driverv1.MachineDriverServer.
func (s *service) InitializeMachine(
	ctx context.Context, req *driverv1.InitializeMachineRequest,
) (*driverv1.InitializeMachineResponse, error) {
	return initializeMachine.serve(ctx, req, s.driver.InitializeMachine)
}

// DeleteMachine implements driverv1.MachineDriverServer.
func (s *service) DeleteMachine(ctx context.Context, req *driverv1.DeleteMachineRequest) (*driverv1.DeleteMachineResponse, error) {
	return deleteMachine.serve(ctx, req, s.driver.DeleteMachine)
}

// GetMachineStatus implements driverv1.MachineDriverServer.
func (s *service) GetMachineStatus(
	ctx context.Context, req *driverv1.GetMachineStatusRequest,
) (*driverv1.GetMachineStatusResponse, error) {
	return getMachineStatus.serve(ctx, req, s.driver.GetMachineStatus)
}

// ListMachines implements driverv1.MachineDriverServer.
func (s *service) ListMachines(ctx context.Context, req *driverv1.ListMachinesRequest) (*driverv1.ListMachinesResponse, error) {
	return listMachines.serve(ctx, req, s.driver.ListMachines)
}

// GetVolumeIDs implements driverv1.MachineDriverServer.
func (s *service) GetVolumeIDs(ctx context.Context, req *driverv1.GetVolumeIDsRequest) (*driverv1.GetVolumeIDsResponse, error) {
	return getVolumeIDs.serve(ctx, req, s.driver.GetVolumeIDs)
}

// GetInfo implements driverv1.MachineDriverServer.
func (s *service) GetInfo(context.Context, *driverv1.GetInfoRequest) (*driverv1.GetInfoResponse, error) {
	return &driverv1.GetInfoResponse{Name: s.info.Name, Version: s.info.Version}, nil
}
