// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlay requires the work of a pod to go on after errors, which are reported at once. Those that do not pass are
// returned, but only for a test.
func TestPlay(t *testing.T) {
	t.Parallel()

	passing := errors.New("passing")
	lasting := errors.New("lasting")

	for name, tc := range map[string]struct {
		results     []error
		reportsOnly bool
		reports     int
		failures    int // calls with an error
		want        error
	}{
		"Passing": {results: []error{nil, passing, nil, passing, nil}, reports: 2, failures: 2},
		"Lasting": {results: []error{nil, passing, lasting, lasting, nil}, reports: 2, failures: 3, want: lasting},
		"Crashed": {results: []error{nil, errCrashed, nil, nil, nil}, reports: 1, failures: 1, want: errCrashed},
		"Demo":    {results: []error{nil, lasting, lasting, errCrashed, nil}, reportsOnly: true, reports: 2, failures: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				var calls, reports int

				ctx, cancel := context.WithCancel(t.Context())
				s := &Seed{report: func(string, ...any) { reports++ }, reportsOnly: tc.reportsOnly}
				begun := time.Now()

				err := s.play(ctx, time.Second, "work", func(context.Context) error {
					calls++
					if calls == len(tc.results) {
						cancel()
					}

					return tc.results[calls-1]
				})

				require.Equal(t, tc.reports, reports, "a repeated error is reported once")
				require.Equal(t, time.Duration(tc.failures)*backOff+time.Duration(len(tc.results)-1-tc.failures)*time.Second, time.Since(begun))
				require.ErrorIs(t, err, tc.want)
			})
		})
	}
}

// TestPlayEnds requires the error of a request that the end of the context has interrupted to be none of the pod.
func TestPlayEnds(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	s := &Seed{report: func(string, ...any) { t.Error("reported") }}

	require.NoError(t, s.play(ctx, time.Hour, "work", func(ctx context.Context) error {
		cancel()

		return ctx.Err()
	}))
}
