// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/lru"
)

// Semaphores limit the large pages that the process reads and decodes at a time. Without them, fifty
// workers that each read a page of maximum size would take gigabytes of memory.
type Semaphores struct {
	process *semaphore.Weighted

	mu sync.Mutex
	// hosts holds a semaphore for each host.
	hosts *lru.Cache
}

// NewSemaphores returns the semaphores of a process.
func NewSemaphores() *Semaphores {
	return &Semaphores{process: semaphore.NewWeighted(maxLargeReads), hosts: lru.New(maxHosts)}
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
		found = semaphore.NewWeighted(maxLargeReadsPerCluster)
		s.hosts.Add(host, found)
	}

	ofCluster, _ := found.(*semaphore.Weighted)

	return semaphores{ofProcess: s.process, ofCluster: ofCluster}
}

// semaphores are those that a large page from one host waits for.
type semaphores struct{ ofProcess, ofCluster *semaphore.Weighted }

// ReadSlot is the permission to read large pages of lists, one after the other. Its caller releases it
// when it has dropped a page. It is not safe for concurrent use.
type ReadSlot struct {
	semaphores semaphores
	cost       int64
	held       bool
}

// Cost returns the memory that the complete responses that share the slot take after decoding, as
// estimated, in bytes.
func (s *ReadSlot) Cost() int64 { return s.cost }

// acquire waits for the slot, unless it is already held. Pages first wait for their own cluster's
// semaphore, so that few of them compete with other clusters.
func (s *ReadSlot) acquire(ctx context.Context) error {
	if s.held {
		return nil
	}

	err := s.semaphores.ofCluster.Acquire(ctx, 1)
	if err == nil {
		if err = s.semaphores.ofProcess.Acquire(ctx, 1); err != nil {
			s.semaphores.ofCluster.Release(1)
		}
	}

	if err != nil {
		return fmt.Errorf("wait until other large responses have been read: %w", err)
	}

	s.held = true

	return nil
}

// Release releases the slot, if it is held.
func (s *ReadSlot) Release() {
	if s.held {
		s.held = false
		s.semaphores.ofProcess.Release(1)
		s.semaphores.ofCluster.Release(1)
	}
}

// slotKey is the context key of a ReadSlot.
type slotKey struct{}

// WithReadSlot returns a context whose responses are pages of a list, which the caller drops one after the
// other; all of them must come from one provider cluster. They may be large, and share one slot. Any other
// response is refused if it would take more memory than maxKept.
func WithReadSlot(ctx context.Context) (context.Context, *ReadSlot) {
	shared := &ReadSlot{}

	return context.WithValue(ctx, slotKey{}, shared), shared
}

// slotOf returns the slot of a request for a page; nil for other requests.
func (all semaphores) slotOf(ctx context.Context) *ReadSlot {
	s, ok := ctx.Value(slotKey{}).(*ReadSlot)
	if ok && !s.held {
		s.semaphores = all
	}

	return s
}
