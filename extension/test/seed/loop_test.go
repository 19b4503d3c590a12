package seed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlay requires the work of a pod to go on after errors, which are reported at once, and returned only for a test.
func TestPlay(t *testing.T) {
	t.Parallel()

	first, second := errors.New("first"), errors.New("second")
	results := []error{nil, first, first, second, nil, second, nil}

	for reportsOnly, want := range map[bool][]error{true: nil, false: {first, second}} {
		t.Run(fmt.Sprintf("only reports: %t", reportsOnly), func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				var calls, reports int

				ctx, cancel := context.WithCancel(t.Context())
				s := &Seed{report: func(string, ...any) { reports++ }, reportsOnly: reportsOnly}
				begun := time.Now()

				err := s.play(ctx, time.Second, "work", func(context.Context) error {
					calls++
					if calls == len(results) {
						cancel()
					}

					return results[calls-1]
				})

				require.Equal(t, 3, reports, "a repeated error is reported once")
				require.Equal(t, 4*backOff+2*time.Second, time.Since(begun))

				for _, w := range want {
					require.ErrorIs(t, err, w)
				}

				require.Equal(t, len(want) > 0, err != nil)
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
