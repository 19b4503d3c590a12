// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"crypto/rand"
	"regexp"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
)

// ProcessKey is the metadata key with which a client identifies its process.
// api/driver/v1/driver.proto documents it.
const ProcessKey = "machine-driver-client-process"

// processID matches the values of ProcessKey. They are long enough to be unique, and none is
// caller.Unknown.
var processID = regexp.MustCompile(`^[A-Za-z0-9-]{16,64}$`)

// sendProcessID sends the ID of the client's process with every call. The ID is random, so that every
// process has a different one.
func sendProcessID() grpc.UnaryClientInterceptor {
	id := rand.Text()

	return func(
		ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, ProcessKey, id), method, req, reply, connection, opts...)
	}
}

// receiveProcessID adds the ID of the process that sent a call to the context. A client that does
// not send exactly one valid ID is unknown.
func receiveProcessID(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	id := caller.Unknown
	if ids := metadata.ValueFromIncomingContext(ctx, ProcessKey); len(ids) == 1 && processID.MatchString(ids[0]) {
		id = caller.ID(ids[0])
	}

	return handle(caller.With(ctx, id), req)
}
