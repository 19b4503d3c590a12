package seed

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPerform requires the progress of each task, and no task after one that failed.
func TestPerform(t *testing.T) {
	t.Parallel()

	var (
		failure  = errors.New("failed")
		progress []any
		done     int
	)

	s := &Shoot{Progress: func(task string, percent int32) { progress = append(progress, task, percent) }}
	succeeds := func(context.Context) error { done++; return nil }

	err := s.perform(t.Context(), task{"a", succeeds}, task{"b", func(context.Context) error { return failure }}, task{"c", succeeds}, task{"d", succeeds})
	require.ErrorIs(t, err, failure)
	require.Equal(t, []any{"a", int32(0), "b", int32(25)}, progress)
	require.Equal(t, 1, done)
}
