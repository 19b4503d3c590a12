// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
)

// methodKey is the context key of a call's method name: the driver's method, or that of
// spi.GoldenImages for calls outside of the driver.
type methodKey struct{}

func withMethod(ctx context.Context, method string) context.Context {
	return context.WithValue(ctx, methodKey{}, method)
}

// MethodOf returns the method in which a request is made.
func MethodOf(ctx context.Context) string {
	method, ok := ctx.Value(methodKey{}).(string)
	if !ok {
		return suite.OutsideOfMethods
	}

	return method
}

// requestLog records the driver's requests to provider clusters in all tests of this process.
type requestLog struct {
	mu   sync.Mutex
	made map[string]bool
	// covered are the calls that the crash matrix covers; nil if the process did not run the whole
	// matrix.
	covered map[string]bool
}

func newRequestLog() *requestLog { return &requestLog{made: map[string]bool{}} }

// wrap records the requests sent through a transport.
func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.made[MadeBy(r)] = true
		l.mu.Unlock()

		return next.RoundTrip(r)
	})
}

// CoverCalls declares that the crash matrix, run as a whole, covers these calls. The suite then
// fails if any test makes another one.
func CoverCalls(calls map[string]bool) {
	l := recorder.requests

	l.mu.Lock()
	defer l.mu.Unlock()

	l.covered = calls
}

// report adds the calls to the record of the process.
func (l *requestLog) report(r *suite.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()

	r.Calls = slices.Sorted(maps.Keys(l.made))
	r.Covered = slices.Sorted(maps.Keys(l.covered))
}
