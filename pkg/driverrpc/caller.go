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

// processID matches the values of ProcessKey. They are long enough to be
// unique, and none is caller.Unknown.
var processID = regexp.MustCompile(`^[A-Za-z0-9-]{16,64}$`)

// identify identifies the client's process in every call, by a random value, so that the next
// process has another one.
func identify() grpc.UnaryClientInterceptor {
	id := rand.Text()

	return func(
		ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, ProcessKey, id), method, req, reply, connection, opts...)
	}
}

// nameCaller tells the driver which process sent a call. A client that does not send exactly one
// valid ID is unknown, and is never taken for this process.
func nameCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	id := caller.Unknown
	if said := metadata.ValueFromIncomingContext(ctx, ProcessKey); len(said) == 1 && processID.MatchString(said[0]) {
		id = caller.ID(said[0])
	}

	return handle(caller.With(ctx, id), req)
}
