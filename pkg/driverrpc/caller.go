package driverrpc

import (
	"context"
	"crypto/rand"
	"regexp"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
)

// ProcessKey is the key of the metadata with which a client says which process it is. api/driver/v1/driver.proto documents it.
const ProcessKey = "machine-driver-client-process"

// processID is what such a value looks like. It is long enough that no two processes have the same, and none is caller.Unknown.
var processID = regexp.MustCompile(`^[A-Za-z0-9-]{16,64}$`)

// identify says in every call of a client which process it is: random, so that the next process is another one.
func identify() grpc.UnaryClientInterceptor {
	id := rand.Text()

	return func(
		ctx context.Context, method string, req, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, ProcessKey, id), method, req, reply, connection, opts...)
	}
}

// nameCaller tells the driver which process a call comes from. Whoever says nothing, or nothing that is one ID, is unknown, and never
// this process.
func nameCaller(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	id := caller.Unknown
	if said := metadata.ValueFromIncomingContext(ctx, ProcessKey); len(said) == 1 && processID.MatchString(said[0]) {
		id = caller.ID(said[0])
	}

	return handle(caller.With(ctx, id), req)
}
