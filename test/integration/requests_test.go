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

// counter counts the driver's requests to the provider cluster.
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

// wrapDataVolumes counts only requests for DataVolumes.
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

// take returns the requests counted since its last call.
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

// requestCount holds the number of a method's requests to the provider cluster, and their budget.
type requestCount struct {
	method                 string
	reads, writes, watches int
	budget                 [3]int
	// total is the budget for requests of all kinds.
	total int
}

func (c *requestCount) sum() int { return c.reads + c.writes + c.watches }

// TestRequestsPerMethod compares every method's number of provider API requests with its budget.
func TestRequestsPerMethod(t *testing.T) {
	t.Parallel()

	for _, count := range countRequests(t) {
		t.Logf("%-40s %d reads, %d writes, %d watches (budget: %v)", count.method, count.reads, count.writes, count.watches, count.budget)
		require.LessOrEqual(t, count.reads, count.budget[0], count.method+": reads")
		require.LessOrEqual(t, count.writes, count.budget[1], count.method+": writes")
		require.LessOrEqual(t, count.watches, count.budget[2], count.method+": watches")
		require.LessOrEqual(t, count.sum(), count.total, count.method)
	}
}

// countRequests runs a machine through its life and counts the requests.
func countRequests(t *testing.T) []requestCount {
	t.Helper()

	c := &counter{}
	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wrap: c.wrap, wait: settled})

	var counts []requestCount

	count := func(method string, reads, writes, watches int) {
		r, w, o := c.take()
		counts = append(counts, requestCount{
			method: method, reads: r, writes: w, watches: o, budget: [3]int{reads, writes, watches}, total: reads + writes + watches,
		})
	}

	first := s.newMachine("zone-a", importedRoot)
	_, err := first.create(t.Context(), d)
	require.NoError(t, err)
	count("CreateMachine, with a new image", 0, 3, 0)

	_, err = first.initialize(t.Context(), d)
	require.NoError(t, err)
	count("InitializeMachine, with a new image", 3, 0, 2)

	require.NoError(t, first.remove(t.Context(), d))
	c.take()

	begun := len(counts)
	m := s.newMachine("zone-a", importedRoot)
	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
	count("GetMachineStatus, not found", 2, 0, 0)

	_, err = m.create(t.Context(), d)
	require.NoError(t, err)
	count("CreateMachine", 0, 2, 0)

	_, err = m.initialize(t.Context(), d)
	require.NoError(t, err)
	count("InitializeMachine, scheduled in its wait", 2, 0, 2)

	_, err = m.status(t.Context(), d)
	require.NoError(t, err)
	count("GetMachineStatus", 2, 0, 0)

	_, err = m.list(t.Context(), d)
	require.NoError(t, err)
	count("ListMachines", 1, 0, 0)

	require.NoError(t, m.remove(t.Context(), d))
	// The design's budget is one read and two watches. A second read instead of the
	// second watch costs the same, and distinguishes an instance that is gone from one
	// that was not delivered yet.
	count("DeleteMachine", 2, 3, 1)
	s.requireNothingLeft(t)

	return append(counts, lifeOf(counts[begun:]))
}

// lifeOf adds up the requests and budgets of a machine's methods, each called once. The total of
// all kinds has a separate budget.
func lifeOf(counts []requestCount) requestCount {
	const budget = 18

	sum := requestCount{method: "a machine's life", total: budget}

	for _, c := range counts {
		sum.reads, sum.writes, sum.watches = sum.reads+c.reads, sum.writes+c.writes, sum.watches+c.watches

		for i := range sum.budget {
			sum.budget[i] += c.budget[i]
		}
	}

	return sum
}
