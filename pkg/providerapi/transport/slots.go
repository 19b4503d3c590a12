package transport

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/utils/lru"
)

// Semaphores limit the large pages that the process reads and decodes at a time. Without them, fifty
// workers that each read a page of maximum size would take gigabytes of memory.
type Semaphores struct {
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

	return semaphores{ofProcess: s.process, ofCluster: ofCluster}
}

// semaphores are those that a large page from one host waits for.
type semaphores struct{ ofProcess, ofCluster chan struct{} }

// ReadSlot is the permission to read large pages of lists, one after the other. Its caller releases it
// when it has dropped a page.
type ReadSlot struct {
	semaphores semaphores
	// cost is the memory of the pages that share the slot.
	cost atomic.Int64

	mu   sync.Mutex
	held bool
}

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

// WithReadSlot returns a context whose responses are pages of a list, which the caller drops one after the
// other; all of them must come from one provider cluster. They may be large, and share one slot. Any other
// response is refused if it would take more memory than MaxKept.
func WithReadSlot(ctx context.Context) (context.Context, *ReadSlot) {
	shared := &ReadSlot{}

	return context.WithValue(ctx, slotKey{}, shared), shared
}

// slotOf returns the slot of a request for a page; nil for other requests.
func (all semaphores) slotOf(ctx context.Context) *ReadSlot {
	s, ok := ctx.Value(slotKey{}).(*ReadSlot)
	if !ok {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.held {
		s.semaphores = all
	}

	return s
}
