package providerapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// answer is the body of a response. Reading fails when a bound is exceeded.
type answer struct {
	io.ReadCloser

	scanner scanner
	watch   bool
	turn    *turn
	// ctx is the request's context; it ends a read that waits for its turn.
	ctx   context.Context //nolint:containedctx // The methods of io.Reader take no context.
	timer *timer

	// A watch may be closed while it is being read.
	mu     sync.Mutex
	closed bool
	// slow cancels the request if the response holds its turn for too long.
	slow *time.Timer
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	// The caller has decoded the previous event before it reads the next one.
	if a.watch && a.scanner.between() {
		a.leave()
	}

	n, err := a.ReadCloser.Read(p)
	a.turn.bytes.Add(int64(n))

	if excess := a.scanner.scan(p[:n]); excess != nil {
		return 0, excess
	}

	if a.watch && a.scanner.bytes > maxEvent {
		return 0, fmt.Errorf("an event: %w", &http.MaxBytesError{Limit: maxEvent})
	}

	if a.scanner.cost() <= smallAnswer {
		a.arrived() // A large event before this one is complete.
	} else if err := a.take(); err != nil {
		return 0, err
	}

	if err != nil {
		err = a.timer.explain(a.ctx, err)
	}

	return n, err
}

// take waits for the turn and then limits the time for the rest of the response.
func (a *answer) take() error {
	if err := a.turn.take(a.ctx); err != nil {
		return err
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if a.closed {
		a.giveBack()

		return http.ErrBodyReadAfterClose
	}

	if a.slow == nil {
		a.slow = time.AfterFunc(largeLasts, func() { a.timer.cancel(context.DeadlineExceeded) })
	}

	return nil
}

// leave releases the turn.
func (a *answer) leave() {
	a.arrived()
	a.turn.leave()
}

// arrived stops the time limit once a large response or event is complete.
func (a *answer) arrived() {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.slow != nil {
		a.slow.Stop()
		a.slow = nil
	}
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.timer.end()

	a.arrived()

	a.mu.Lock()
	defer a.mu.Unlock()

	a.closed = true
	a.giveBack()

	return a.ReadCloser.Close()
}

// giveBack releases the turn, unless it is shared: then the caller holds it
// until the response is decoded.
func (a *answer) giveBack() {
	if !a.turn.shared {
		a.turn.leave()
	}
}

// places are the semaphores for large responses. Without them, fifty workers that each read a
// response of maximum size would take gigabytes of memory.
type places struct{ ofProcess, ofCluster chan struct{} }

// turn is a slot for reading a large response. It is released when the response has been decoded.
type turn struct {
	places places
	// shared is set if a call holds the turn, rather than a response body.
	shared bool
	// limit bounds a response, in bytes; zero means maxAnswer.
	limit int64
	// bytes counts the bytes read of the responses that share the turn.
	bytes atomic.Int64

	mu   sync.Mutex
	held bool
}

// take waits for the turn, unless it is already held.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.held {
		return nil
	}

	// Responses first wait for their own cluster's semaphore, so that few of
	// them compete with other clusters.
	for i, place := range []chan struct{}{t.places.ofCluster, t.places.ofProcess} {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-t.places.ofCluster
			}

			return fmt.Errorf("wait until other large responses have been read: %w", ctx.Err())
		}
	}

	t.held = true

	return nil
}

// leave releases the turn, if it is held.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.held {
		t.held = false
		<-t.places.ofProcess
		<-t.places.ofCluster
	}
}

// turnKey is the context key of a turn.
type turnKey struct{}

// withTurn returns a context whose requests share one turn; all of them must go to one provider
// cluster. The caller releases the turn when the responses have been decoded.
func withTurn(ctx context.Context) (context.Context, *turn) {
	shared := &turn{shared: true}

	return context.WithValue(ctx, turnKey{}, shared), shared
}

// turnOf returns the turn shared by the request's call, or a new one.
func (p places) turnOf(ctx context.Context) *turn {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return &turn{places: p}
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	if !t.held {
		t.places = p
	}

	return t
}
