// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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
	// maxAttempts bounds how often a call is sent, in case the call crashes the driver.
	maxAttempts = 5
	// reconnectTimeout is how long a call waits for the driver to restart: as long as the driver
	// itself waits for its provider cluster. If the call failed, machine-controller-manager would
	// show the machine as failed.
	reconnectTimeout = 15 * time.Second
)

// withTimeout bounds a call. machine-controller-manager's contexts have no deadline.
func withTimeout(
	ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts[method])
	defer cancel()

	return invoke(ctx, method, req, reply, connection, opts...)
}

// retryLost resends a call that got no response from a driver, as soon as there is a connection.
// Every method is idempotent, even across restarts of the driver.
func retryLost(
	ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, req, reply, connection, opts...)
		if ctx.Err() != nil || !lost(err) || attempt == maxAttempts || !reconnect(ctx, connection) {
			return err
		}
	}
}

// lost reports whether the connection was lost during a call, or the server cancelled the call
// because it could not read the request in time: even one from the same pod can take that long while
// the node is short of CPU.
func lost(err error) bool {
	code := grpcstatus.Code(err)

	return (code == grpccodes.Unavailable || code == grpccodes.Canceled) && machineErrorOf(err) == nil
}

// reconnect waits for a connection, and reports whether there is one.
func reconnect(ctx context.Context, connection *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, reconnectTimeout)
	defer cancel()

	for state := connection.GetState(); state != connectivity.Ready; state = connection.GetState() {
		connection.Connect() // It has an effect only in the idle state.

		if !connection.WaitForStateChange(ctx, state) {
			return false
		}
	}

	return true
}
