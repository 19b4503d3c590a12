// Package caller carries, in a context, which process a request comes from. pkg/driverrpc says it of those that arrive over gRPC;
// pkg/spi/providercluster asks, before it believes that somebody has known something for long. It must know neither of them.
package caller

import "context"

// ID is that of a process. It is a name, and gives nobody a right.
type ID string

const (
	// ThisProcess is who calls if nobody says otherwise: the driver and its caller live and end together.
	ThisProcess ID = ""
	// Unknown is a caller that has not said which process it is. Two of its requests may come from two processes.
	Unknown ID = "unknown"
)

type key struct{}

// With returns a context for the requests of a process.
func With(ctx context.Context, id ID) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// Of returns the process that With has named.
func Of(ctx context.Context) ID {
	id, _ := ctx.Value(key{}).(ID)

	return id
}
