// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package records remembers what the driver has learned about machines: a bounded Store of records
// with one expiry, and the Phases of machines, a field of those records. pkg/kubevirt keeps a record
// of each Machine, pkg/providercluster one of each VirtualMachine, and cmd/machine-controller the last
// phase. It must not depend on any of them. Losing a record, as on a restart, is harmless.
package records

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Retention is how long a record is kept after its last use. machine-controller-manager calls the
	// driver for a machine at least every ten minutes until the machine has joined, and a call takes
	// some minutes.
	Retention = 25 * time.Minute
	// maxRecords bounds the records of a store; the least recently used ones are dropped. A server may
	// list any number of machines.
	maxRecords = 50_000
)

// Key identifies a record: by the UID of a Machine, or by the server, namespace and name of a
// VirtualMachine. A provider cluster must not be able to choose it freely.
type Key string

// Store has a record for each key. It is safe for concurrent use, and the duration of all functions
// except Each is independent of the number of records. The functions that it calls must not call it.
type Store[R any] struct {
	clock     clock.PassiveClock
	retention time.Duration
	weigh     func(*R) int64

	mu      sync.Mutex
	entries map[Key]*list.Element
	// byUse has the entries, beginning with the most recently used one.
	byUse *list.List
	// weight is the sum of the weights of all records.
	weight int64
}

type entry[R any] struct {
	key    Key
	record R
	used   time.Time
}

// NewStore returns an empty store. Most uses keep records for Retention.
func NewStore[R any](c clock.PassiveClock, retention time.Duration) *Store[R] {
	return NewWeighedStore(c, retention, func(*R) int64 { return 0 })
}

// NewWeighedStore returns an empty store that knows the weight of all its records. weigh returns the
// weight of a record, such as its size in bytes.
func NewWeighedStore[R any](c clock.PassiveClock, retention time.Duration, weigh func(*R) int64) *Store[R] {
	return &Store[R]{clock: c, retention: retention, weigh: weigh, entries: map[Key]*list.Element{}, byUse: list.New()}
}

// Use calls a function with the record of a key, which it may change. A new record is zero.
func (s *Store[R]) Use(key Key, use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.removeExpired()

	element := s.entries[key]
	if element == nil {
		element = s.byUse.PushFront(&entry[R]{key: key})
		s.entries[key] = element
	}

	s.byUse.MoveToFront(element)

	e := entryOf[R](element)
	e.used = now
	s.change(&e.record, use)

	if s.byUse.Len() > maxRecords {
		s.remove(s.byUse.Back())
	}
}

// Peek is like Use, but does nothing without a record, and does not extend how long the record is kept.
func (s *Store[R]) Peek(key Key, use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.removeExpired()

	if element := s.entries[key]; element != nil {
		s.change(&entryOf[R](element).record, use)
	}
}

// Weight returns the sum of the weights of all records.
func (s *Store[R]) Weight() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.removeExpired()

	return s.weight
}

// Each calls a function with each record, which it may change, beginning with the most recently used
// one.
func (s *Store[R]) Each(use func(*R)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.removeExpired()

	for element := s.byUse.Front(); element != nil; element = element.Next() {
		s.change(&entryOf[R](element).record, use)
	}
}

// change calls a function that may change a record. The caller holds the lock.
func (s *Store[R]) change(record *R, use func(*R)) {
	s.weight -= s.weigh(record)
	use(record)
	s.weight += s.weigh(record)
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
	e := entryOf[R](element)
	s.weight -= s.weigh(&e.record)
	delete(s.entries, e.key)
	s.byUse.Remove(element)
}

func entryOf[R any](element *list.Element) *entry[R] {
	e, _ := element.Value.(*entry[R]) // The list has no other values.

	return e
}
