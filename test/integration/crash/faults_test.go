package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func namesOf(faults []harness.Fault) string {
	names := make([]string, 0, len(faults))
	for _, f := range faults {
		names = append(names, f.Name)
	}

	return strings.Join(names, ", ")
}

// saboteur injects each fault into every call of the driver, one after the other. It discovers the
// calls by itself: a call is a method of the driver together with its request to the API server.
type saboteur struct {
	faults []harness.Fault
	// spares is a call without faults.
	spares string

	mu   sync.Mutex
	kill context.CancelFunc
	// passed counts the undisturbed requests since the method began, by call.
	passed map[string]int
	// met counts the injected faults, by call.
	met map[string]int
	// conflicted means that the server has answered the current method with a conflict.
	conflicted bool
	dead       bool
}

func newSaboteur(faults []harness.Fault) *saboteur {
	return &saboteur{faults: faults, passed: map[string]int{}, met: map[string]int{}}
}

// during starts a method, which kill aborts.
func (s *saboteur) during(kill context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.kill, s.passed, s.conflicted = kill, map[string]int{}, false
}

// revive starts the next process, and reports whether the last one has died.
func (s *saboteur) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	died := s.dead
	s.dead = false

	return died
}

// sawConflict reports whether the server has answered the last method with a conflict.
func (s *saboteur) sawConflict() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.conflicted
}

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(r *http.Request) (*http.Response, error) {
		fault, dead := s.strike(r)

		switch {
		case dead:
			return nil, context.Canceled
		case fault == nil:
			return next.RoundTrip(r)
		}

		if fault.Committed {
			resp, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}

			if err := resp.Body.Close(); err != nil {
				return nil, err
			}
		}

		if fault.Fatal {
			s.kill()
		}

		if fault.Err != nil {
			return nil, fault.Err
		}

		return respond(r, fault.Answer)
	})
}

// strike returns the fault of this request, and whether the process is already dead.
func (s *saboteur) strike(r *http.Request) (happens *harness.Fault, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.dead {
		return nil, true
	}

	call := harness.MadeBy(r)
	nth := call

	// A repeated request within a method is another call: for two Secrets, the
	// call for the second one.
	if passed := s.passed[call]; passed > 0 {
		nth = fmt.Sprintf("%s, no. %d", call, passed+1)
	}

	if call == s.spares || s.met[nth] == len(s.faults) {
		s.passed[call]++

		return nil, false
	}

	happens = &s.faults[s.met[nth]]
	s.met[nth]++
	s.dead = happens.Fatal
	s.conflicted = s.conflicted || happens.Answer == harness.ErrConflict

	return happens, false
}

// hasHit reports whether all faults were injected into all of these calls.
func (s *saboteur) hasHit(calls ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return !slices.ContainsFunc(calls, func(call string) bool { return s.met[call] < len(s.faults) })
}

// calls returns every disturbed call with its number of faults.
func (s *saboteur) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return maps.Clone(s.met)
}

// respond returns an API server's error response.
func respond(r *http.Request, status *apierrors.StatusError) (*http.Response, error) {
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}

	return &http.Response{
		Status: http.StatusText(int(s.Code)), StatusCode: int(s.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// loseAnswer lets the server carry out the first such call, but loses its answer.
func loseAnswer(call string) func(http.RoundTripper) http.RoundTripper {
	var lost atomic.Bool

	return func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || harness.CallOf(r.Method, r.URL) != call || lost.Swap(true) {
				return resp, err
			}

			if err := resp.Body.Close(); err != nil {
				return nil, err
			}

			return nil, syscall.ECONNRESET
		})
	}
}

// refuse answers all such calls with a conflict.
func refuse(call string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if harness.CallOf(r.Method, r.URL) == call {
				return respond(r, harness.ErrConflict)
			}

			return next.RoundTrip(r)
		})
	}
}
