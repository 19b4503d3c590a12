package driverrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	grpcstatus "google.golang.org/grpc/status"
)

const (
	// maxAttempts bounds how often a call is sent: one that ends its driver each time is not sent for ever.
	maxAttempts = 5
	// awaitConnection is how long a call waits for the driver to come back. It is as long as the driver itself waits for its provider
	// cluster: for machine-controller-manager every error is a failed machine, and the end of a process is none.
	awaitConnection = 15 * time.Second
)

// withDeadline bounds a call. machine-controller-manager's contexts never end.
func withDeadline(
	ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, deadlines[method])
	defer cancel()

	return invoke(ctx, method, req, reply, connection, opts...)
}

// repeatLost sends a call again whose connection was lost, once there is another one. Every method may be repeated: what the last
// process has done, the next one finds.
func repeatLost(
	ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, req, reply, connection, opts...)
		if !lost(err) || attempt == maxAttempts || !connected(ctx, connection) {
			return err
		}
	}
}

// lost says whether a call ended without anybody's answer.
func lost(err error) bool {
	return grpcstatus.Code(err) == grpccodes.Unavailable && machineErrorOf(err) == nil
}

// connected waits, for a bounded time, until there is a connection.
func connected(ctx context.Context, connection *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, awaitConnection)
	defer cancel()

	for {
		state := connection.GetState()
		if state == connectivity.Ready {
			return true
		}

		connection.Connect() // From idle; otherwise it is on its way.

		if !connection.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
