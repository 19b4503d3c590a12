// Package records remembers what the driver has learned about machines: a bounded Store of records
// with one expiry, and the Phases of machines, a field of those records. pkg/kubevirt keeps a record
// of each Machine, pkg/providercluster one of each VirtualMachine, and cmd/machine-controller the last
// phase. It must not depend on any of them. Losing a record, as on a restart, is harmless.
package records

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// Retention is how long a record is kept after its last use. machine-controller-manager calls the
	// driver for a machine at least every ten minutes until the machine has joined, and a call takes
	// some minutes.
	Retention = 25 * time.Minute
	// maxRecords bounds the records of a store; the least recently used ones are dropped. A server may
	// return a machine with another UID each time.
	maxRecords = 100_000
)

// Store has a record for each machine, by the UID of its Machine or VirtualMachine. It is safe for
// concurrent use. The functions that it calls must not call it.
type Store[R any] struct {
	clock     clock.PassiveClock
	retention time.Duration

	mu      sync.Mutex
	entries map[types.UID]*list.Element
	// byUse has the entries, beginning with the most recently used one.
	byUse *list.List
}

type entry[R any] struct {
	machine types.UID
	record  R
	used    time.Time
}

// NewStore returns an empty store. Most uses keep records for Retention.
func NewStore[R any](c clock.PassiveClock, retention time.Duration) *Store[R] {
	return &Store[R]{clock: c, retention: retention, entries: map[types.UID]*list.Element{}, byUse: list.New()}
}

// Use calls a function with the record of a machine, which it may change. A new record is zero.
func (s *Store[R]) Use(machine types.UID, use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.removeExpired()

	element := s.entries[machine]
	if element == nil {
		element = s.byUse.PushFront(&entry[R]{machine: machine})
		s.entries[machine] = element
	}

	s.byUse.MoveToFront(element)

	e := entryOf[R](element)
	e.used = now
	use(&e.record)

	if s.byUse.Len() > maxRecords {
		s.remove(s.byUse.Back())
	}
}

// Peek is like Use, but does nothing without a record, and does not extend how long the record is kept.
func (s *Store[R]) Peek(machine types.UID, use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.removeExpired()

	if element := s.entries[machine]; element != nil {
		use(&entryOf[R](element).record)
	}
}

// Each calls a function with each record, which it may change, beginning with the most recently used
// one.
func (s *Store[R]) Each(use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.removeExpired()

	for element := s.byUse.Front(); element != nil; element = element.Next() {
		use(&entryOf[R](element).record)
	}
}

// removeExpired returns the current time. The caller holds the lock.
func (s *Store[R]) removeExpired() time.Time {
	now := s.clock.Now()
	for last := s.byUse.Back(); last != nil && now.Sub(entryOf[R](last).used) > s.retention; last = s.byUse.Back() {
		s.remove(last)
	}

	return now
}

func (s *Store[R]) remove(element *list.Element) {
	delete(s.entries, entryOf[R](element).machine)
	s.byUse.Remove(element)
}

func entryOf[R any](element *list.Element) *entry[R] {
	e, _ := element.Value.(*entry[R]) // The list has no other values.

	return e
}
