// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Fault happens to one request to the provider cluster.
type Fault struct {
	Name string
	// Committed means that the server carries out the request, and only the answer is lost.
	Committed bool
	// Fatal means that the process dies with the request.
	Fatal bool
	// Err is the error returned by the transport; nil: answer.
	Err error
	// Answer is the error response sent instead.
	Answer *apierrors.StatusError
}

// ErrConflict is the error response of an API server to a lost update.
var ErrConflict = apierrors.NewConflict(schema.GroupResource{Resource: "anything"}, "x", errors.New("injected"))

// Faults returns all faults.
func Faults() []Fault {
	return []Fault{
		{Name: "dies before", Fatal: true, Err: context.Canceled},
		{Name: "dies after", Fatal: true, Committed: true, Err: context.Canceled},
		{Name: "timeout before", Err: os.ErrDeadlineExceeded},
		{Name: "timeout after", Committed: true, Err: os.ErrDeadlineExceeded},
		{Name: "reset before", Err: syscall.ECONNRESET},
		{Name: "reset after", Committed: true, Err: syscall.ECONNRESET},
		{Name: "EOF after", Committed: true, Err: io.ErrUnexpectedEOF},
		{Name: "409", Answer: ErrConflict},
		{Name: "429", Answer: apierrors.NewTooManyRequests("injected", 0)},
		{Name: "500", Answer: apierrors.NewInternalError(errors.New("injected"))},
		{Name: "503", Answer: apierrors.NewServiceUnavailable("injected")},
		{
			Name: "webhook",
			Answer: apierrors.NewInternalError(errors.New(
				`failed calling webhook "virtualmachines-mutator.kubevirt.io": context deadline exceeded`)),
		},
	}
}

// play answers a request with the fault. A timeout fault sends no answer;
// the client gives up first.
func (f *Fault) play(w http.ResponseWriter, r *http.Request) {
	if errors.Is(f.Err, os.ErrDeadlineExceeded) {
		_, _ = io.Copy(io.Discard, r.Body) // Only then does the server detect a client's disconnect.
		<-r.Context().Done()
	}

	if errors.Is(f.Err, syscall.ECONNRESET) {
		resetConnectionOf(r) // With HTTP/2, the panic below would end the request, but not its connection.
	}

	if f.Answer == nil {
		panic(http.ErrAbortHandler) // The server closes the connection.
	}

	status := f.Answer.Status()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))

	body, _ := yaml.Marshal(status) // A client that cannot read it sees the code.
	body, _ = yaml.YAMLToJSON(body)
	_, _ = w.Write(body)
}

// FaultNamed returns the fault of this name.
func FaultNamed(t *testing.T, name string) Fault {
	t.Helper()

	for _, f := range Faults() {
		if f.Name == name {
			return f
		}
	}

	require.Fail(t, "no such fault", name)

	return Fault{}
}
