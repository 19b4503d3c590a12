// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTogether_Results returns the error of the first step in their order, whichever fails first, and passes on a panic
// after all steps have ended.
func TestTogether_Results(t *testing.T) {
	t.Parallel()

	first, second := errors.New("first"), errors.New("second")
	failed := make(chan struct{})

	require.NoError(t, together())
	require.Equal(t, first, together(
		func() error {
			<-failed

			return first
		},
		func() error {
			defer close(failed)

			return second
		},
	))
	require.Equal(t, second, together(func() error { return nil }, func() error { return second }))

	ended := false

	require.PanicsWithValue(t, "broken", func() {
		_ = together(func() error { panic("broken") }, func() error {
			ended = true

			return first
		})
	})
	require.True(t, ended)
}
