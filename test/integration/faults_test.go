package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
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

func faults() []fault {
	anything := schema.GroupResource{Resource: "anything"}

	return []fault{
		{name: "dies before", fatal: true, err: context.Canceled},
		{name: "dies after", fatal: true, committed: true, err: context.Canceled},
		{name: "timeout before", err: os.ErrDeadlineExceeded},
		{name: "timeout after", committed: true, err: os.ErrDeadlineExceeded},
		{name: "reset before", err: syscall.ECONNRESET},
		{name: "reset after", committed: true, err: syscall.ECONNRESET},
		{name: "EOF after", committed: true, err: io.ErrUnexpectedEOF},
		{name: "409", answer: apierrors.NewConflict(anything, "x", errors.New("injected"))},
		{name: "429", answer: apierrors.NewTooManyRequests("injected", 0)},
		{name: "500", answer: apierrors.NewInternalError(errors.New("injected"))},
		{name: "503", answer: apierrors.NewServiceUnavailable("injected")},
		{name: "webhook", answer: apierrors.NewInternalError(errors.New(
			`failed calling webhook "virtualmachines-mutator.kubevirt.io": context deadline exceeded`))},
	}
}

// saboteur lets a fault happen to every call that the driver makes, once each. What is a call it finds out by itself: a method of
// the driver, and what that asks of the API server.
type saboteur struct {
	fault fault

	mu     sync.Mutex
	method string
	kill   context.CancelFunc
	hit    map[string]bool
	dead   bool
}

func newSaboteur(f fault) *saboteur {
	return &saboteur{fault: f, hit: map[string]bool{}}
}

// during names the method that runs, and says how to end it.
func (s *saboteur) during(method string, kill context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.method, s.kill = method, kill
}

// revive starts the next process, and says whether the last one has died.
func (s *saboteur) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	died := s.dead
	s.dead = false

	return died
}

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		strike, dead := s.strikes(r)

		switch {
		case dead:
			return nil, context.Canceled
		case !strike:
			return next.RoundTrip(r)
		}

		if s.fault.committed {
			resp, err := next.RoundTrip(r)
			if err != nil {
				return nil, err
			}

			if err := resp.Body.Close(); err != nil {
				return nil, err
			}
		}

		if s.fault.fatal {
			s.kill()
		}

		if s.fault.err != nil {
			return nil, s.fault.err
		}

		return respond(r, s.fault.answer)
	})
}

// strikes says whether the fault happens to this request, and whether the process is dead already.
func (s *saboteur) strikes(r *http.Request) (strike, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	call := s.method + ": " + callOf(r.Method, r.URL)
	if s.dead || s.hit[call] {
		return false, s.dead
	}

	s.hit[call] = true
	s.dead = s.fault.fatal

	return true, false
}

// calls returns every call that was made.
func (s *saboteur) calls() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.hit
}

// callOf names what is asked of the API server: the verb, and the type of the objects.
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
		return "list " + resource
	case method == http.MethodDelete && collection:
		return "deletecollection " + resource
	default:
		return map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[method] + " " + resource
	}
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
