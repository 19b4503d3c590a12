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

const (
	// maxAnswer bounds the body of an answer, in bytes, after decompression. An object that etcd takes has half.
	maxAnswer = 3 << 20
	// maxPage bounds a page of a list that is read page by page. 500 VirtualMachines' metadata have a fifth.
	maxPage = 8 << 20
	// maxWatch bounds all events of a watch together: a server that sends events as fast as it can is listened to after a pause. Two thousand
	// instances that change every minute take a minute and a half.
	maxWatch = 64 << 20
	// maxEvent bounds one event of a watch.
	maxEvent = maxAnswer
	// smallAnswer is what an answer may cost in memory before it has to wait for its turn: see turn. A VirtualMachine costs a fifth, and
	// the metadata of a hundred cost as much.
	smallAnswer = 1 << 20
	// largeLasts bounds how long the rest of a large answer, or event, may take while it keeps others waiting.
	largeLasts = 10 * time.Second
)

// answer is the body of an answer. It ends where a bound is exceeded.
type answer struct {
	io.ReadCloser

	scanner scanner
	watch   bool
	turn    *turn
	// ctx is the request's: a read that waits for a turn ends with it.
	ctx   context.Context //nolint:containedctx // A body is read by io.Reader's methods, which have no context.
	timer *timer

	// A watch is closed while it is read.
	mu     sync.Mutex
	closed bool
	// slow ends the answer if it holds its turn for too long.
	slow *time.Timer
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	// Whoever wants the next event has decoded the last one.
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
		a.arrived() // It is the next event, if a large one was read before.
	} else if err := a.take(); err != nil {
		return 0, err
	}

	if err != nil {
		err = a.timer.explain(a.ctx, err)
	}

	return n, err
}

// take waits for the turn, from which on the answer has little time left.
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

// leave gives the turn back.
func (a *answer) leave() {
	a.arrived()
	a.turn.leave()
}

// arrived takes note that nothing more is to come of a large answer or event.
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

// giveBack gives the turn back, unless what decodes the answer holds it longer, and has asked for that.
func (a *answer) giveBack() {
	if !a.turn.shared {
		a.turn.leave()
	}
}

const (
	// largeAtATime is how many large answers the process reads and decodes at a time, of all provider clusters.
	largeAtATime = 4
	// largeOfOne is how many of these are one cluster's: a server that answers everything at length, and slowly, must not keep the others
	// from being read.
	largeOfOne = 1
)

// places are the places of large answers. Fifty workers that each read an answer of the largest size would take gigabytes.
type places struct{ ofProcess, ofCluster chan struct{} }

// turn is what a large answer waits for. It is given back when the answer has been decoded.
type turn struct {
	places places
	// shared says that a call holds the turn, not the body of an answer.
	shared bool
	// limit bounds an answer, in bytes; zero for maxAnswer.
	limit int64
	// bytes is how much has been read of the answers that share the turn.
	bytes atomic.Int64

	mu   sync.Mutex
	held bool
}

// take waits for the turn, unless it is held already.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.held {
		return nil
	}

	// A cluster's own answers wait first, so that those in front of all others are few.
	for i, place := range []chan struct{}{t.places.ofCluster, t.places.ofProcess} {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-t.places.ofCluster
			}

			return fmt.Errorf("wait until other large answers have been read: %w", ctx.Err())
		}
	}

	t.held = true

	return nil
}

// leave gives the turn back, if it is held.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.held {
		t.held = false
		<-t.places.ofProcess
		<-t.places.ofCluster
	}
}

// turnKey is the key of a turn in a context.
type turnKey struct{}

// withTurn returns a context whose requests, which go to one provider cluster, share one turn. The caller gives it back when their answers
// have been decoded.
func withTurn(ctx context.Context) (context.Context, *turn) {
	shared := &turn{shared: true}

	return context.WithValue(ctx, turnKey{}, shared), shared
}

// turnOf returns the turn of a request's call, or one of its own.
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
