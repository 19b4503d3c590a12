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

// methodKey is the context key of a call's method name: the driver's method, or that of
// spi.GoldenImages for calls outside of the driver.
type methodKey struct{}

func withMethod(ctx context.Context, method string) context.Context {
	return context.WithValue(ctx, methodKey{}, method)
}

// outside names the requests made by evacuation itself. They are no step of a machine's life;
// evacuation's own tests remove the rights for them.
const outside = "outside of methods"

// methodOf returns the method in which a request is made.
func methodOf(ctx context.Context) string {
	method, ok := ctx.Value(methodKey{}).(string)
	if !ok {
		return outside
	}

	return method
}

// requestLog records the driver's requests to provider clusters in all tests of this process. The
// crash matrix must cover all of them: a call made only in another test is missing in the matrix.
type requestLog struct {
	mu   sync.Mutex
	made map[string]bool
	// met are the calls covered by the crash matrix; nil if the run does not
	// include the whole matrix.
	met map[string]bool
}

func newRequestLog() *requestLog { return &requestLog{made: map[string]bool{}} }

// wrap records the requests sent through a transport.
func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.made[madeBy(r)] = true
		l.mu.Unlock()

		return next.RoundTrip(r)
	})
}

// compareWith sets the calls covered by the crash matrix.
func (l *requestLog) compareWith(met map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.met = met
}

// unmet returns the calls that the crash matrix does not cover.
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
