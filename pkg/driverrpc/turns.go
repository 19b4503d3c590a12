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

// turns bound how many calls run at once, and how many of them are one client's: half, so that no client keeps all others waiting.
type turns struct {
	all   chan struct{}
	share int

	mu sync.Mutex
	// clients are those with calls, by name.
	clients map[string]*clientTurns
}

// clientTurns are those of one client.
type clientTurns struct {
	running chan struct{}
	// calls is how many run or wait.
	calls int
}

func newTurns(many int) *turns {
	return &turns{all: make(chan struct{}, many), share: (many + 1) / 2, clients: map[string]*clientTurns{}}
}

// intercept makes a driver's call wait for its turn. It is not refused: machine-controller-manager would show the machine as failed.
func (t *turns) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, ok := deadlines[info.FullMethod]; !ok || info.FullMethod == driverv1.MachineDriver_GetInfo_FullMethodName {
		return handle(ctx, req)
	}

	// On a socket, all clients are its owner, who has all turns.
	if name := clientOf(ctx); name != "" {
		client := t.enter(name)
		defer t.leave(name)

		// A client waits for its own calls first: those that wait for all calls are few, and get their turns in the order they came.
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

// clientOf returns the first name in the client's certificate; empty without one.
func clientOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}

	secured, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(secured.State.PeerCertificates) == 0 {
		return ""
	}

	return namesIn(secured.State.PeerCertificates[0])[0] // There is one: a client without a name is refused.
}
