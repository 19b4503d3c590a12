package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// methodKey is where a call keeps its method's name in the context: the driver's, or that of spi.GoldenImages if it is called outside of
// the driver.
type methodKey struct{}

func withMethod(ctx context.Context, method string) context.Context {
	return context.WithValue(ctx, methodKey{}, method)
}

// outside is what evacuation asks by itself. It is no step of a machine's life: its own tests take away what it needs.
const outside = "outside of methods"

// methodOf returns the method in which a request is made.
func methodOf(ctx context.Context) string {
	method, ok := ctx.Value(methodKey{}).(string)
	if !ok {
		return outside
	}

	return method
}

// requestLog is what the driver asks of provider clusters in any test of this process. The crash matrix must have met all of it: a
// call that only another test provokes is one that the matrix forgot.
type requestLog struct {
	mu   sync.Mutex
	made map[string]bool
	// met is what the crash matrix has met; nil if the run does not have all of it.
	met map[string]bool
}

func newRequestLog() *requestLog { return &requestLog{made: map[string]bool{}} }

// wrap takes note of what is asked through a transport.
func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.made[madeBy(r)] = true
		l.mu.Unlock()

		return next.RoundTrip(r)
	})
}

// compareWith tells what the crash matrix has met.
func (l *requestLog) compareWith(met map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.met = met
}

// unmet returns the calls that the crash matrix has not met.
func (l *requestLog) unmet() []string {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.met == nil {
		return nil
	}

	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.made)), func(call string) bool {
		return l.met[call] || strings.HasPrefix(call, outside+": ")
	})
}

func (l *requestLog) String() string {
	unmet := l.unmet()

	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case l.met == nil:
		return fmt.Sprintf("requests: %d calls, not compared with the crash matrix, which was not run as a whole", len(l.made))
	case len(unmet) > 0:
		return "requests: calls that the crash matrix has not met:\n  " + strings.Join(unmet, "\n  ")
	default:
		return fmt.Sprintf("requests: %d calls, all met by the crash matrix", len(l.made))
	}
}
