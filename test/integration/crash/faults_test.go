// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// faultInjector injects each fault into every call of the driver, one after the other. It discovers
// the calls by itself: a call is a method of the driver together with its request to the API
// server.
type faultInjector struct {
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

func newFaultInjector(faults []harness.Fault) *faultInjector {
	return &faultInjector{faults: faults, passed: map[string]int{}, met: map[string]int{}}
}

// during starts a method, which kill aborts.
func (i *faultInjector) during(kill context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()

	i.kill = kill
	i.passed = map[string]int{}
	i.conflicted = false
}

// revive starts the next process, and reports whether the last one has died.
func (i *faultInjector) revive() bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	died := i.dead
	i.dead = false

	return died
}

// sawConflict reports whether the server has answered the last method with a conflict.
func (i *faultInjector) sawConflict() bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	return i.conflicted
}

func (i *faultInjector) wrap(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(r *http.Request) (*http.Response, error) {
		fault, dead := i.strike(r)

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
			i.kill()
		}

		if fault.Err != nil {
			return nil, fault.Err
		}

		return respond(r, fault.Answer)
	})
}

// strike returns the fault of this request, and whether the process is already dead.
func (i *faultInjector) strike(r *http.Request) (happens *harness.Fault, dead bool) {
	i.mu.Lock()
	defer i.mu.Unlock()

	if i.dead {
		return nil, true
	}

	call := harness.MadeBy(r)
	nth := call

	// A repeated request within a method is another call: for two Secrets, the
	// call for the second one.
	if passed := i.passed[call]; passed > 0 {
		nth = fmt.Sprintf("%s, no. %d", call, passed+1)
	}

	if call == i.spares || i.met[nth] == len(i.faults) {
		i.passed[call]++

		return nil, false
	}

	happens = &i.faults[i.met[nth]]
	i.met[nth]++
	i.dead = happens.Fatal
	i.conflicted = i.conflicted || happens.Answer == harness.ErrConflict

	return happens, false
}

// hasHit reports whether all faults were injected into all of these calls.
func (i *faultInjector) hasHit(calls ...string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	return !slices.ContainsFunc(calls, func(call string) bool { return i.met[call] < len(i.faults) })
}

// calls returns every disturbed call with its number of faults.
func (i *faultInjector) calls() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()

	return maps.Clone(i.met)
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
		Status:        http.StatusText(int(s.Code)),
		StatusCode:    int(s.Code),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Request:       r,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
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
