package driverrpc

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"
)

const (
	// readAtATime is the number of requests that are read at a time. The size of a request is known
	// only after it has been read.
	readAtATime = 16
	// maxArrived bounds the requests that have been read but not yet answered, in bytes. An
	// ordinary request has 30 KiB.
	maxArrived = 32 << 20
	// partOfClient is the divisor of both bounds for one client.
	partOfClient = 4
	// readTimeout bounds the time for reading one request.
	readTimeout = 30 * time.Second
	// window is the number of bytes that gRPC accepts of a request, and of all requests of a
	// connection, before the request is read. Without it, gRPC lets a fast client send megabytes.
	window = 64 << 10
)

// arrivals bounds the memory of requests that wait for their turn; one client may use a
// quarter of it. gRPC reads a request before any interceptor sees it, and only a
// stats.Handler is called before that.
type arrivals struct {
	reading, arrived *semaphore.Weighted

	mu      sync.Mutex
	clients map[string]*clientArrivals
}

// clientArrivals is the share of one client.
type clientArrivals struct {
	reading, arrived *semaphore.Weighted
	// calls counts the uses of the share.
	calls int
}

func newArrivals() *arrivals {
	return &arrivals{
		reading: semaphore.NewWeighted(readAtATime), arrived: semaphore.NewWeighted(maxArrived), clients: map[string]*clientArrivals{},
	}
}

// options returns the server options that enforce the bounds.
func (a *arrivals) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InTapHandle(a.tap), grpc.StatsHandler(a), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
	}
}

// arrival is an incoming request.
type arrival struct {
	// cancel ends the call, and slow does so if the request is not read in time.
	cancel context.CancelFunc
	slow   *time.Timer

	mu sync.Mutex
	// reading and arrived release the bounds that the request counts against; nil if there is none.
	reading, arrived func()
}

// arrivalKey is the context key of an arrival.
type arrivalKey struct{}

// tap makes the call of a client that sends its request too slowly cancellable. It is
// called before anything is read.
func (a *arrivals) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)

	return context.WithValue(ctx, arrivalKey{}, &arrival{cancel: cancel}), nil
}

// TagRPC implements stats.Handler.
func (*arrivals) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*arrivals) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*arrivals) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC implements stats.Handler. gRPC calls it in the goroutine of the call, so it may block.
func (a *arrivals) HandleRPC(ctx context.Context, event stats.RPCStats) {
	request, ok := ctx.Value(arrivalKey{}).(*arrival)
	if !ok {
		return
	}

	switch event := event.(type) {
	case *stats.Begin:
		a.begin(ctx, request)
	case *stats.InPayload:
		a.weigh(ctx, request, int64(event.Length))
	case *stats.End:
		request.end()
	}
}

// begin waits until the request may be read. If the call ends before that, reading it fails.
func (a *arrivals) begin(ctx context.Context, request *arrival) {
	own, leave := a.enter(clientOf(ctx))

	release, err := takeBoth(ctx, own.reading, a.reading, 1)
	if err != nil {
		leave()

		return
	}

	request.slow = time.AfterFunc(readTimeout, request.cancel)
	request.hold(&request.reading, func() {
		request.slow.Stop()
		release()
		leave()
	})
}

// weigh waits until there is memory for a request that has been read,
// and lets the next one be read.
func (a *arrivals) weigh(ctx context.Context, request *arrival, size int64) {
	if request.slow != nil {
		request.slow.Stop()
	}

	own, leave := a.enter(clientOf(ctx))

	release, err := takeBoth(ctx, own.arrived, a.arrived, size)
	if err != nil {
		leave() // The call is over.
	} else {
		request.hold(&request.arrived, func() {
			release()
			leave()
		})
	}

	request.release(&request.reading)
}

// takeBoth acquires from a client's share first, so that few of its requests
// wait for those of all clients.
func takeBoth(ctx context.Context, own, all *semaphore.Weighted, size int64) (release func(), err error) {
	if err := own.Acquire(ctx, size); err != nil {
		return nil, err
	}

	if err := all.Acquire(ctx, size); err != nil {
		own.Release(size)

		return nil, err
	}

	return func() {
		all.Release(size)
		own.Release(size)
	}, nil
}

// enter returns a client's share, which is kept until leave is called. On a socket, all clients are
// its owner, who may use everything.
func (a *arrivals) enter(name string) (own *clientArrivals, leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()

	own = a.clients[name]
	if own == nil {
		share := int64(4)
		if name == "" {
			share = 1
		}

		own = &clientArrivals{reading: semaphore.NewWeighted(readAtATime / share), arrived: semaphore.NewWeighted(maxArrived / share)}
		a.clients[name] = own
	}

	own.calls++

	return own, func() { a.leave(name) }
}

func (a *arrivals) leave(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	own := a.clients[name]
	if own.calls--; own.calls == 0 {
		delete(a.clients, name)
	}
}

// hold adds a function to call on release. A stream may carry several messages, all of which count.
func (r *arrival) hold(what *func(), release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()

	before := *what
	*what = func() {
		release()

		if before != nil {
			before()
		}
	}
}

func (r *arrival) release(what *func()) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if *what != nil {
		(*what)()
		*what = nil
	}
}

// end releases everything that the request holds, and its context.
func (r *arrival) end() {
	r.release(&r.reading)
	r.release(&r.arrived)
	r.cancel()
}
