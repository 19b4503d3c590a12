package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fault is something that happens to one request to the provider cluster.
type fault struct {
	name string
	// committed says that the server carries the request out, and only the answer is lost.
	committed bool
	// fatal says that the process ends with it.
	fatal bool
	// err is what the transport returns; nil: answer.
	err error
	// answer is what the server says instead.
	answer *apierrors.StatusError
}

var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "anything"}, "x", errors.New("injected"))

func faults() []fault {
	return []fault{
		{name: "dies before", fatal: true, err: context.Canceled},
		{name: "dies after", fatal: true, committed: true, err: context.Canceled},
		{name: "timeout before", err: os.ErrDeadlineExceeded},
		{name: "timeout after", committed: true, err: os.ErrDeadlineExceeded},
		{name: "reset before", err: syscall.ECONNRESET},
		{name: "reset after", committed: true, err: syscall.ECONNRESET},
		{name: "EOF after", committed: true, err: io.ErrUnexpectedEOF},
		{name: "409", answer: conflict},
		{name: "429", answer: apierrors.NewTooManyRequests("injected", 0)},
		{name: "500", answer: apierrors.NewInternalError(errors.New("injected"))},
		{name: "503", answer: apierrors.NewServiceUnavailable("injected")},
		{name: "webhook", answer: apierrors.NewInternalError(errors.New(
			`failed calling webhook "virtualmachines-mutator.kubevirt.io": context deadline exceeded`))},
	}
}

func namesOf(faults []fault) string {
	names := make([]string, 0, len(faults))
	for _, f := range faults {
		names = append(names, f.name)
	}

	return strings.Join(names, ", ")
}

// saboteur lets faults happen to every call that the driver makes, each of them once, one after the other. What is a call it finds out by
// itself: a method of the driver, and what that asks of the API server.
type saboteur struct {
	faults []fault
	// spares is a call to which nothing happens.
	spares string

	mu   sync.Mutex
	kill context.CancelFunc
	// passed counts the requests to which nothing happened since the method began, by call.
	passed map[string]int
	// met counts the faults that have happened, by call.
	met map[string]int
	// conflicted says that the server has answered the method that runs with a conflict.
	conflicted bool
	dead       bool
}

func newSaboteur(faults []fault) *saboteur {
	return &saboteur{faults: faults, passed: map[string]int{}, met: map[string]int{}}
}

// during says how to end the method that begins.
func (s *saboteur) during(kill context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.kill, s.passed, s.conflicted = kill, map[string]int{}, false
}

// revive starts the next process, and says whether the last one has died.
func (s *saboteur) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	died := s.dead
	s.dead = false

	return died
}

// sawConflict says whether the server has answered the last method with a conflict.
func (s *saboteur) sawConflict() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.conflicted
}

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		fault, dead := s.strike(r)

		switch {
		case dead:
			return nil, context.Canceled
		case fault == nil:
			return next.RoundTrip(r)
		}

		if fault.committed {
			resp, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}

			if err := resp.Body.Close(); err != nil {
				return nil, err
			}
		}

		if fault.fatal {
			s.kill()
		}

		if fault.err != nil {
			return nil, fault.err
		}

		return respond(r, fault.answer)
	})
}

// strike returns what happens to this request, and whether the process is dead already.
func (s *saboteur) strike(r *http.Request) (happens *fault, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.dead {
		return nil, true
	}

	call := madeBy(r)
	nth := call

	// What a method asks again after it was answered is another call: of two Secrets, for the second one.
	if passed := s.passed[call]; passed > 0 {
		nth = fmt.Sprintf("%s, no. %d", call, passed+1)
	}

	if call == s.spares || s.met[nth] == len(s.faults) {
		s.passed[call]++

		return nil, false
	}

	happens = &s.faults[s.met[nth]]
	s.met[nth]++
	s.dead = happens.fatal
	s.conflicted = s.conflicted || happens.answer == conflict

	return happens, false
}

// hasHit says whether all faults have happened to all of these calls.
func (s *saboteur) hasHit(calls ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return !slices.ContainsFunc(calls, func(call string) bool { return s.met[call] < len(s.faults) })
}

// calls returns every call to which something happened, and how many of the faults did.
func (s *saboteur) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return maps.Clone(s.met)
}

// madeBy names a request of the driver: the method that runs, and what is asked of the API server.
func madeBy(r *http.Request) string {
	return methodOf(r.Context()) + ": " + callOf(r.Method, r.URL)
}

// callOf names what is asked of the API server: the verb, the type of the objects, and the field by which they are selected.
func callOf(method string, u *url.URL) string {
	_, rest, _ := strings.Cut(u.Path, "/namespaces/")
	parts := strings.Split(rest, "/")

	if len(parts) < 2 {
		return method + " " + u.Path
	}

	resource, collection := parts[1], len(parts) == 2

	switch {
	case u.Query().Get("watch") != "":
		return "watch " + resource
	case method == http.MethodGet && collection:
		return "list " + resource + byField(u.Query().Get("fieldSelector"))
	case method == http.MethodDelete && collection:
		return "deletecollection " + resource
	default:
		return map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[method] + " " + resource
	}
}

func byField(selector string) string {
	field, _, selected := strings.Cut(selector, "=")
	if !selected {
		return ""
	}

	return " by " + field
}

// respond is an answer of an API server.
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

// loseAnswer has the server carry out the first such call, and its answer get lost.
func loseAnswer(call string) func(http.RoundTripper) http.RoundTripper {
	var lost atomic.Bool

	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || callOf(r.Method, r.URL) != call || lost.Swap(true) {
				return resp, err
			}

			if err := resp.Body.Close(); err != nil {
				return nil, err
			}

			return nil, syscall.ECONNRESET
		})
	}
}

// refuse has all such calls end with a conflict.
func refuse(call string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if callOf(r.Method, r.URL) == call {
				return respond(r, conflict)
			}

			return next.RoundTrip(r)
		})
	}
}
