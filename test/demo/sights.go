// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// sights are the observations made during the demo.
type sights struct {
	machines map[string]bool          // every Machine
	vms      map[string]bool          // every VirtualMachine
	hosts    map[string]bool          // provider nodes that ran a VirtualMachine
	ready    map[string]time.Duration // from the Machine's creation until it was seen Running with a Ready node
	exhaust  time.Duration            // from the Machine's creation until ResourceExhausted was seen
	most     int                      // maximum number of machines at one time
}

func newSights() sights {
	return sights{machines: map[string]bool{}, vms: map[string]bool{}, hosts: map[string]bool{}, ready: map[string]time.Duration{}}
}

// note records one snapshot.
func (s *sights) note(now time.Time, seen snapshot) {
	s.most = max(s.most, len(seen.machines))
	for name := range seen.machines {
		s.machines[name] = true
	}
	for name := range seen.vms {
		s.vms[name] = true
	}
	for _, r := range seen.rows() {
		if r.providerNode != none {
			s.hosts[r.providerNode] = true
		}
		if _, before := s.ready[r.name]; r.settled() && !before {
			s.ready[r.name] = now.Sub(r.created)
		}
		if r.errorCode == resourceExhausted && s.exhaust == 0 {
			s.exhaust = now.Sub(r.created)
		}
	}
}

// readiness returns the median and maximum time until a machine was ready.
func (s *sights) readiness() (median, longest time.Duration) {
	if len(s.ready) == 0 {
		return 0, 0
	}
	all := make([]time.Duration, 0, len(s.ready))
	for _, d := range s.ready {
		all = append(all, d)
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}
