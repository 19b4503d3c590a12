// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var errCause = errors.New("cause")

func TestErrors(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		err  error
		want string
	}{
		"Kind":        {spi.Errorf(spi.ErrTimeout, "wait for %s", "m"), "timed out: wait for m"},
		"Cause":       {spi.Errorf(spi.ErrTimeout, "wait: %w", errCause), "timed out: wait: cause"},
		"Remedy":      {spi.WithRemedy(spi.Errorf(spi.ErrTimeout, "wait"), "do this"), "timed out: wait; do this"},
		"OtherRemedy": {spi.WithRemedy(spi.WithRemedy(spi.Errorf(spi.ErrTimeout, "wait"), "a"), "b"), "timed out: wait; b"},
		"During":      {spi.During("get a", spi.WithRemedy(spi.Errorf(spi.ErrTimeout, "wait"), "do this")), "timed out: get a: wait; do this"},
		"Reason":      {&spi.Error{Kind: spi.ErrTimeout, Reason: "NodeDown", Message: "wait"}, "NodeDown: wait"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.EqualError(t, tc.err, tc.want)
			require.ErrorIs(t, tc.err, spi.ErrTimeout)
		})
	}

	require.ErrorIs(t, spi.Errorf(spi.ErrTimeout, "wait: %w", errCause), errCause)
	require.NotErrorIs(t, &spi.Error{Kind: spi.ErrTimeout}, errCause)
	require.NoError(t, spi.WithRemedy(nil, "a"))
	require.NoError(t, spi.During("a", nil))
	require.Nil(t, spi.AsError(nil))
}

// TestAsError converts errors of other origins. None of their text may be lost.
func TestAsError(t *testing.T) {
	t.Parallel()

	own := &spi.Error{Kind: spi.ErrForbidden, Reason: "CloneForbidden", Message: "no", Remedy: "grant it", Kubeconfig: true}

	tests := map[string]struct {
		err  error
		want spi.Error
	}{
		"Own":      {own, *own},
		"Foreign":  {errCause, spi.Error{Message: "cause", Cause: errCause}},
		"Sentinel": {spi.ErrConflict, spi.Error{Kind: spi.ErrConflict, Message: "operation in progress", Cause: spi.ErrConflict}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, &tc.want, spi.AsError(tc.err))
		})
	}

	wrapped := fmt.Errorf("sweep: %w", own)
	got := spi.AsError(wrapped)
	require.Equal(t, &spi.Error{
		Kind:       spi.ErrForbidden,
		Reason:     "CloneForbidden",
		Message:    "sweep: CloneForbidden: no; grant it",
		Kubeconfig: true,
		Cause:      wrapped,
	}, got)
}
