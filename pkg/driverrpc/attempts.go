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
	// maxAttempts bounds how often a call is sent: a call that crashes its driver each time must
	// not be repeated forever.
	maxAttempts = 5
	// awaitConnection is how long a call waits for the driver to come back. It is as long as the
	// driver itself waits for its provider cluster: for machine-controller-manager every error is a
	// failed machine, and the end of a process is not.
	awaitConnection = 15 * time.Second
)

// withDeadline bounds a call. machine-controller-manager's contexts have no deadline.
func withDeadline(
	ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, deadlines[method])
	defer cancel()

	return invoke(ctx, method, req, reply, connection, opts...)
}

// repeatLost resends a call whose connection was lost, once there is a new one. Every method may be
// repeated: a process finds the results of the previous one.
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

// lost reports whether a call ended without a response from a driver.
func lost(err error) bool {
	return grpcstatus.Code(err) == grpccodes.Unavailable && machineErrorOf(err) == nil
}

// connected waits, for a bounded time, until there is a connection,
// and reports whether there is one.
func connected(ctx context.Context, connection *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, awaitConnection)
	defer cancel()

	for {
		state := connection.GetState()
		if state == connectivity.Ready {
			return true
		}

		connection.Connect() // Leaves the idle state; in any other state it connects already.

		if !connection.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
