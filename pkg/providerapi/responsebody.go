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

// responseBody is the body of a response. Reading fails when a bound is exceeded.
type responseBody struct {
	io.ReadCloser

	scanner scanner
	watch   bool
	slot    *readSlot
	// ctx is the request's context; it ends a read that waits for the slot.
	ctx   context.Context //nolint:containedctx // The methods of io.Reader take no context.
	timer *timer

	// A watch may be closed while it is being read.
	mu     sync.Mutex
	closed bool
	// slow cancels the request if the response holds the slot for too long.
	slow *time.Timer
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	// The caller has decoded the previous event before it reads the next one.
	if b.watch && b.scanner.between() {
		b.release()
	}

	n, err := b.ReadCloser.Read(p)
	b.slot.bytes.Add(int64(n))

	if excess := b.scanner.scan(p[:n]); excess != nil {
		return 0, excess
	}

	if b.watch && b.scanner.bytes > maxEvent {
		return 0, fmt.Errorf("an event: %w", &http.MaxBytesError{Limit: maxEvent})
	}

	if b.scanner.cost() <= smallResponse {
		b.stopTimeout() // A large event before this one is complete.
	} else if err := b.acquire(); err != nil {
		return 0, err
	}

	if err != nil {
		err = b.timer.explain(b.ctx, err)
	}

	return n, err
}

// acquire waits for the slot, and then limits the time for the rest of the response.
func (b *responseBody) acquire() error {
	if err := b.slot.acquire(b.ctx); err != nil {
		return err
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	if b.closed {
		b.releaseUnlessShared()

		return http.ErrBodyReadAfterClose
	}

	if b.slow == nil {
		b.slow = time.AfterFunc(largeReadTimeout, func() { b.timer.cancel(context.DeadlineExceeded) })
	}

	return nil
}

// release releases the slot.
func (b *responseBody) release() {
	b.stopTimeout()
	b.slot.release()
}

// stopTimeout stops the time limit once a large response or event is complete.
func (b *responseBody) stopTimeout() {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.slow != nil {
		b.slow.Stop()
		b.slow = nil
	}
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	defer b.timer.end()

	b.stopTimeout()

	b.mu.Lock()
	defer b.mu.Unlock()

	b.closed = true
	b.releaseUnlessShared()

	return b.ReadCloser.Close()
}

// releaseUnlessShared releases the slot, unless it is shared: then the caller holds it until the
// response is decoded.
func (b *responseBody) releaseUnlessShared() {
	if !b.slot.shared {
		b.slot.release()
	}
}

// semaphores are the semaphores for large responses. Without them, fifty workers that each read a
// response of maximum size would take gigabytes of memory.
type semaphores struct{ ofProcess, ofCluster chan struct{} }

// readSlot is the permission to read a large response. It is released when the response has been
// decoded.
type readSlot struct {
	semaphores semaphores
	// shared is set if a call holds the slot, rather than a response body.
	shared bool
	// limit bounds a response, in bytes; zero means maxResponse.
	limit int64
	// bytes counts the bytes read of the responses that share the slot.
	bytes atomic.Int64

	mu   sync.Mutex
	held bool
}

// acquire waits for the slot, unless it is already held.
func (s *readSlot) acquire(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.held {
		return nil
	}

	// Responses first wait for their own cluster's semaphore, so that few of
	// them compete with other clusters.
	for i, semaphore := range []chan struct{}{s.semaphores.ofCluster, s.semaphores.ofProcess} {
		select {
		case semaphore <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-s.semaphores.ofCluster
			}

			return fmt.Errorf("wait until other large responses have been read: %w", ctx.Err())
		}
	}

	s.held = true

	return nil
}

// release releases the slot, if it is held.
func (s *readSlot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.held {
		s.held = false
		<-s.semaphores.ofProcess
		<-s.semaphores.ofCluster
	}
}

// slotKey is the context key of a readSlot.
type slotKey struct{}

// withReadSlot returns a context whose requests share one slot; all of them must go to one provider
// cluster. The caller releases the slot when the responses have been decoded.
func withReadSlot(ctx context.Context) (context.Context, *readSlot) {
	shared := &readSlot{shared: true}

	return context.WithValue(ctx, slotKey{}, shared), shared
}

// slotOf returns the slot shared by the request's call, or a new one.
func (all semaphores) slotOf(ctx context.Context) *readSlot {
	s, ok := ctx.Value(slotKey{}).(*readSlot)
	if !ok {
		return &readSlot{semaphores: all}
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.held {
		s.semaphores = all
	}

	return s
}
