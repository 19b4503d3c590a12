// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// ref identifies an image.
type ref struct {
	server, namespace, name string
}

func refOf(c *providerapi.Clients, name string) ref {
	return ref{server: c.Server, namespace: c.Namespace, name: name}
}

// state is the last observed state of an image; empty if the image is not known to exist.
type state string

const (
	importing state = "importing"
	ready     state = "ready"
	failed    state = "failed"
)

// states caches which images exist, so that the creation of a machine needs no request for its image.
// It also locks images that a call is using. After a restart, each image costs one request.
type states struct {
	mu  sync.Mutex
	all map[ref]*image
}

// image is a cache entry. The creation of a machine holds the lock shared, a deletion exclusively.
type image struct {
	lock sync.RWMutex
	// users is the number of calls that hold the lock or wait for it.
	users int
	state state
	// uid is the UID of the observed DataVolume, which this process has created or compared with the
	// rendered image.
	uid types.UID
}

func newStates() *states {
	return &states{all: map[ref]*image{}}
}

// share locks an image against deletion by this process, until release is called.
func (s *states) share(r ref) (release func()) {
	entry := s.enter(r)
	entry.lock.RLock()

	return func() {
		entry.lock.RUnlock()
		s.leave(r)
	}
}

// tryLock locks an image exclusively. It returns false if a call is using the image: a deletion does
// not wait for machines that are being created.
func (s *states) tryLock(r ref) (release func(), ok bool) {
	entry := s.enter(r)
	if !entry.lock.TryLock() {
		s.leave(r)

		return nil, false
	}

	return func() {
		entry.lock.Unlock()
		s.leave(r)
	}, true
}

func (s *states) enter(r ref) *image {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.all[r] == nil {
		s.all[r] = &image{}
	}

	s.all[r].users++

	return s.all[r]
}

// leave drops the entry of an image that is neither in use nor known to exist.
func (s *states) leave(r ref) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.all[r].users--
	s.drop(r)
}

func (s *states) drop(r ref) {
	if found := s.all[r]; found.users == 0 && found.state == "" {
		delete(s.all, r)
	}
}

func (s *states) state(r ref) state {
	s.mu.Lock()
	defer s.mu.Unlock()

	if found := s.all[r]; found != nil {
		return found.state
	}

	return ""
}

// is reports whether an image's entry describes the DataVolume with this UID.
func (s *states) is(r ref, uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	found := s.all[r]

	return found != nil && found.uid == uid
}

// set stores the observed state of a DataVolume, and returns the previous state.
func (s *states) set(r ref, now state, uid types.UID) (before state) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.all[r] == nil {
		s.all[r] = &image{}
	}

	before = s.all[r].state
	s.all[r].state = now
	s.all[r].uid = uid
	s.drop(r)

	return before
}

// count returns the number of images by state.
func (s *states) count() map[state]int {
	s.mu.Lock()
	defer s.mu.Unlock()

	found := map[state]int{importing: 0, ready: 0, failed: 0}

	for _, one := range s.all {
		if one.state != "" {
			found[one.state]++
		}
	}

	return found
}
