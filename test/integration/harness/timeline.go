// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Timeline records all actors' actions and their times, as seen by a test
// that watches all clusters.
type Timeline struct {
	start time.Time

	mu     sync.Mutex
	events []timelineEvent
}

type timelineEvent struct {
	at        time.Duration
	who, what string
}

// NewTimeline returns a timeline that starts now.
func NewTimeline() *Timeline {
	return &Timeline{start: time.Now()}
}

// Add adds an event: an actor and its action.
func (l *Timeline) Add(who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.events = append(l.events, timelineEvent{at: time.Since(l.start), who: who, what: fmt.Sprintf(format, args...)})
}

// Print logs the events in order.
func (l *Timeline) Print(t *testing.T) {
	t.Helper()

	l.mu.Lock()
	defer l.mu.Unlock()

	var text strings.Builder
	for _, e := range l.events {
		fmt.Fprintf(&text, "\n%7.2fs  %-8s  %s", e.at.Seconds(), e.who, e.what)
	}

	t.Log(text.String())
}
