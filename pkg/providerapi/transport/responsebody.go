package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/lru"
)

// responseBody is the body of a response. Reading fails when a bound is exceeded.
type responseBody struct {
	io.ReadCloser

	scanner scanner
	watch   bool
	slot    *ReadSlot
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
	} else if err := b.allowLarge(); err != nil {
		return 0, err
	}

	if err != nil {
		err = b.timer.explain(b.ctx, err)
	}

	return n, err
}

// allowLarge returns an error if the response may not be large. Otherwise, it waits for the slot.
func (b *responseBody) allowLarge() error {
	if b.slot.onlySmall && !b.watch {
		return errMemory
	}

	return b.acquire()
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
	b.slot.Release()
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

	if !b.closed && !b.watch {
		b.slot.cost.Add(int64(b.scanner.cost()))
	}

	b.closed = true
	b.releaseUnlessShared()

	return b.ReadCloser.Close()
}

// releaseUnlessShared releases the slot, unless it is shared: then the caller holds it until the
// response is decoded.
func (b *responseBody) releaseUnlessShared() {
	if !b.slot.shared {
		b.slot.Release()
	}
}

// Semaphores limit the large responses that the process reads and decodes at a time. Without them,
// fifty workers that each read a response of maximum size would take gigabytes of memory.
type Semaphores struct {
	// OnlyPagesLarge refuses responses that would take more than 1 MiB of memory, except those to
	// requests of WithReadSlot, and events. It is set before the first use.
	OnlyPagesLarge bool

	process chan struct{}

	mu sync.Mutex
	// hosts holds a semaphore for each host.
	hosts *lru.Cache
}

// NewSemaphores returns the semaphores of a process.
func NewSemaphores() *Semaphores {
	return &Semaphores{process: make(chan struct{}, maxLargeReads), hosts: lru.New(maxHosts)}
}

// of returns the semaphores for responses from a host. All clients of the host share them, whatever
// their credentials are.
func (s *Semaphores) of(server string) semaphores {
	host := server
	if parsed, err := url.Parse(server); err == nil {
		host = strings.ToLower(parsed.Host)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	found, ok := s.hosts.Get(host)
	if !ok {
		found = make(chan struct{}, maxLargeReadsPerCluster)
		s.hosts.Add(host, found)
	}

	ofCluster, _ := found.(chan struct{})

	return semaphores{ofProcess: s.process, ofCluster: ofCluster, onlyPagesLarge: s.OnlyPagesLarge}
}

// semaphores are those that a large response from one host waits for.
type semaphores struct {
	ofProcess, ofCluster chan struct{}
	onlyPagesLarge       bool
}

// ReadSlot is the permission to read a large response. It is released when the response has been
// decoded.
type ReadSlot struct {
	// Limit bounds a response, in bytes; zero means 3 MiB.
	Limit int64

	semaphores semaphores
	// onlySmall is set if large responses are refused.
	onlySmall bool
	// shared is set if a call holds the slot, rather than a response body.
	shared bool
	// bytes counts the bytes read of the responses that share the slot, and cost the memory that they
	// take after decoding.
	bytes, cost atomic.Int64

	mu   sync.Mutex
	held bool
}

// Bytes returns the number of bytes read of the responses that share the slot.
func (s *ReadSlot) Bytes() int64 { return s.bytes.Load() }

// Cost returns the memory that the complete responses that share the slot take after decoding, as
// estimated, in bytes.
func (s *ReadSlot) Cost() int64 { return s.cost.Load() }

// acquire waits for the slot, unless it is already held.
func (s *ReadSlot) acquire(ctx context.Context) error {
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

// Release releases the slot, if it is held.
func (s *ReadSlot) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.held {
		s.held = false
		<-s.semaphores.ofProcess
		<-s.semaphores.ofCluster
	}
}

// slotKey is the context key of a ReadSlot.
type slotKey struct{}

// WithReadSlot returns a context whose requests share one slot; all of them must go to one provider
// cluster. The caller releases the slot when the responses have been decoded.
func WithReadSlot(ctx context.Context) (context.Context, *ReadSlot) {
	shared := &ReadSlot{shared: true}

	return context.WithValue(ctx, slotKey{}, shared), shared
}

// slotOf returns the slot shared by the request's call, or a new one.
func (all semaphores) slotOf(ctx context.Context) *ReadSlot {
	s, ok := ctx.Value(slotKey{}).(*ReadSlot)
	if !ok {
		return &ReadSlot{semaphores: all, onlySmall: all.onlyPagesLarge}
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.held {
		s.semaphores = all
	}

	return s
}
