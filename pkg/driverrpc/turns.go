package driverrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// turns limits the calls that run at once, and those of one client to half of them, so that no
// client blocks all others.
type turns struct {
	all   chan struct{}
	share int

	mu sync.Mutex
	// clients holds the clients that have calls, by name.
	clients map[string]*clientTurns
}

// clientTurns limits the calls of one client.
type clientTurns struct {
	running chan struct{}
	// calls is the number of running and waiting calls.
	calls int
}

func newTurns(many int) *turns {
	return &turns{all: make(chan struct{}, many), share: (many + 1) / 2, clients: map[string]*clientTurns{}}
}

// intercept makes a call to the driver wait for its turn. Rejecting it would make
// machine-controller-manager show the machine as failed.
func (t *turns) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, ok := deadlines[info.FullMethod]; !ok || info.FullMethod == driverv1.MachineDriver_GetInfo_FullMethodName {
		return handle(ctx, req)
	}

	// On a socket, all clients are its owner, who may use all turns.
	if name := clientOf(ctx); name != "" {
		client := t.enter(name)
		defer t.leave(name)

		// A call first waits for other calls of its client, so that few wait for the calls of all
		// clients; those run in the order in which they came.
		if err := take(ctx, client.running); err != nil {
			return nil, err
		}

		defer func() { <-client.running }()
	}

	if err := take(ctx, t.all); err != nil {
		return nil, err
	}

	defer func() { <-t.all }()

	return handle(ctx, req)
}

func take(ctx context.Context, from chan struct{}) error {
	select {
	case from <- struct{}{}:
		return nil
	case <-ctx.Done():
		return grpcstatus.Error(grpccodes.Unavailable, "too many calls were under way for too long")
	}
}

func (t *turns) enter(name string) *clientTurns {
	t.mu.Lock()
	defer t.mu.Unlock()

	client := t.clients[name]
	if client == nil {
		client = &clientTurns{running: make(chan struct{}, t.share)}
		t.clients[name] = client
	}

	client.calls++

	return client
}

func (t *turns) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	client := t.clients[name]
	if client.calls--; client.calls == 0 {
		delete(t.clients, name)
	}
}

// clientOf returns the first name in the client's certificate; empty without a certificate.
func clientOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}

	secured, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(secured.State.PeerCertificates) == 0 {
		return ""
	}

	return namesIn(secured.State.PeerCertificates[0])[0] // There is one: clients without a name are refused.
}
