// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"sync"
	"time"
)

// places are those of the workers of a controller that wait for slow provider clusters. Without a
// place, a reconciliation has little time for its requests: shoots whose servers are slow must not
// hold all workers. Nil places do not restrict the time.
type places chan struct{}

// newPlaces returns the places of a controller: half of its workers serve other shoots.
func newPlaces(workers int) places { return make(places, max(1, workers/2)) }

// takeAfter takes a place when the time has passed, and calls refuse if none is free. The caller
// calls the returned function when the request has ended.
func (p places) takeAfter(prompt time.Duration, refuse func()) (end func()) {
	if p == nil {
		return func() {}
	}

	var (
		mu           sync.Mutex
		ended, taken bool
	)

	timer := time.AfterFunc(prompt, func() {
		mu.Lock()
		defer mu.Unlock()

		if ended {
			return
		}

		select {
		case p <- struct{}{}:
			taken = true
		default:
			refuse()
		}
	})

	return func() {
		timer.Stop()

		mu.Lock()
		defer mu.Unlock()

		ended = true

		if taken {
			<-p
		}
	}
}
