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
	// handshakeTimeout bounds the time in which a client must have said who it is.
	handshakeTimeout = 10 * time.Second
	// connectionAge is after how long a client connects anew, so that certificates that were replaced or refused come into effect. Calls
	// under way end before.
	connectionAge = time.Hour
	// pingsAtMost is how often clients may ask whether the server is there.
	pingsAtMost = 10 * time.Second
)

// Info says who a driver is.
type Info struct {
	// Name is what a MachineClass names as its provider.
	Name string
	// Version is that of the binary.
	Version string
}

// ServerOptions are a server's settings. All are required.
type ServerOptions struct {
	// Info is what GetInfo answers.
	Info Info
	// Credentials judge the clients of every connection.
	Credentials credentials.TransportCredentials
	// MaxCalls is how many calls run at a time, half of them for a client with a certificate. Others wait for their turn, as long as
	// their clients do.
	MaxCalls int
	// Metrics takes the server's metrics.
	Metrics prometheus.Registerer
}

// Server serves a driver over gRPC, with the health service of gRPC beside it. It has no reflection.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
}

// NewServer returns a server for a driver.
func NewServer(d driver.Driver, o ServerOptions) (*Server, error) {
	observed := newMetrics()
	if err := o.Metrics.Register(observed); err != nil {
		return nil, fmt.Errorf("register the server's metrics: %w", err)
	}

	s := &Server{
		grpc: grpc.NewServer(append(newArrivals().options(),
			grpc.Creds(o.Credentials),
			grpc.ChainUnaryInterceptor(observed.intercept, recoverPanics, nameCaller, setDeadline, newTurns(o.MaxCalls).intercept),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.MaxRecvMsgSize(maxRequest),
			grpc.MaxSendMsgSize(maxResponse),
			// Of each connection, what is above that waits at the client.
			grpc.MaxConcurrentStreams(uint32(o.MaxCalls)), //nolint:gosec // A flag's value, which is small.
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout, MaxConnectionAge: connectionAge}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtMost, PermitWithoutStream: true}),
			grpc.WaitForHandlers(true),
		)...),
		health: health.NewServer(),
	}

	driverv1.RegisterMachineDriverServer(s.grpc, &methods{driver: d, info: o.Info})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(driverv1.MachineDriver_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)

	return s, nil
}

// Serve takes connections until Stop is called, and closes the listener.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve: %w", err)
	}

	return nil
}

// Stop refuses new calls, and waits for those under way until ctx is over. What is left then is cancelled: its clients see that the
// connection is lost, and ask the next process, which can repeat every call.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()

	release := context.AfterFunc(ctx, s.grpc.Stop)
	defer release()

	s.grpc.GracefulStop()
}
