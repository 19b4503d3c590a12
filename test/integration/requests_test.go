package integration

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
)

// counter counts what the driver asks of the provider cluster.
type counter struct {
	mu       sync.Mutex
	requests []string
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.requests = append(c.requests, verb(r.Method, r.URL))
		c.mu.Unlock()

		return next.RoundTrip(r)
	})
}

// wrapDataVolumes counts only what is asked of DataVolumes.
func (c *counter) wrapDataVolumes(next http.RoundTripper) http.RoundTripper {
	counted := c.wrap(next)

	return transport(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/datavolumes") {
			return counted.RoundTrip(r)
		}

		return next.RoundTrip(r)
	})
}

func verb(method string, u *url.URL) string {
	if u.Query().Get("watch") != "" {
		return "WATCH"
	}

	return method
}

// take returns what was counted since it was last called.
func (c *counter) take() (reads, writes, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, request := range c.requests {
		switch request {
		case "WATCH":
			watches++
		case http.MethodGet:
			reads++
		default:
			writes++
		}
	}

	c.requests = nil

	return reads, writes, watches
}

// TestRequestsPerMethod holds every method to the number of provider API requests that it may make.
func TestRequestsPerMethod(t *testing.T) {
	t.Parallel()

	c := &counter{}
	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wrap: c.wrap, wait: settled})
	total := 0

	within := func(method string, reads, writes, watches int) {
		t.Helper()

		r, w, o := c.take()
		total += r + w + o
		t.Logf("%-40s %d reads, %d writes, %d watches (budget: %d, %d, %d)", method, r, w, o, reads, writes, watches)
		require.LessOrEqual(t, r, reads, method+": reads")
		require.LessOrEqual(t, w, writes, method+": writes")
		require.LessOrEqual(t, o, watches, method+": watches")
	}

	first := s.newMachine("zone-a", importedRoot)
	_, err := first.create(t.Context(), d)
	require.NoError(t, err)
	within("CreateMachine, with a new image", 0, 3, 0)

	_, err = first.initialize(t.Context(), d)
	require.NoError(t, err)
	within("InitializeMachine, with a new image", 3, 0, 2)

	require.NoError(t, first.remove(t.Context(), d))
	c.take()

	total = 0
	m := s.newMachine("zone-a", importedRoot)
	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
	within("GetMachineStatus, not found", 2, 0, 0)

	_, err = m.create(t.Context(), d)
	require.NoError(t, err)
	within("CreateMachine", 0, 2, 0)

	_, err = m.initialize(t.Context(), d)
	require.NoError(t, err)
	within("InitializeMachine, scheduled in its wait", 2, 0, 2)

	_, err = m.status(t.Context(), d)
	require.NoError(t, err)
	within("GetMachineStatus", 2, 0, 0)

	_, err = m.list(t.Context(), d)
	require.NoError(t, err)
	within("ListMachines", 1, 0, 0)

	require.NoError(t, m.remove(t.Context(), d))
	// The design's budget is one read and two watches. A second read in place of the second watch costs the same and can
	// tell an instance that is gone from one that was not delivered yet.
	within("DeleteMachine", 2, 3, 1)

	t.Logf("%-40s %d requests (budget: 18)", "a machine's life", total)
	require.LessOrEqual(t, total, 18, "a machine's life")
	s.requireNothingLeft(t)
}
