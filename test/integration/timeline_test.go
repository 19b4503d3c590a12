package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// timeline records all actors' actions and their times, as seen by a test
// that watches all clusters.
type timeline struct {
	start time.Time

	mu     sync.Mutex
	events []timelineEvent
}

type timelineEvent struct {
	at        time.Duration
	who, what string
}

func newTimeline() *timeline {
	return &timeline{start: time.Now()}
}

func (l *timeline) add(who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.events = append(l.events, timelineEvent{at: time.Since(l.start), who: who, what: fmt.Sprintf(format, args...)})
}

// print logs the events in order.
func (l *timeline) print(t *testing.T) {
	t.Helper()

	l.mu.Lock()
	defer l.mu.Unlock()

	var text strings.Builder
	for _, e := range l.events {
		fmt.Fprintf(&text, "\n%7.2fs  %-8s  %s", e.at.Seconds(), e.who, e.what)
	}

	t.Log(text.String())
}
