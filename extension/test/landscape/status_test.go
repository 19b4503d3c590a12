// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
)

func TestDue(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(state gardencorev1beta1.LastOperationState, age time.Duration, observed int64) *gardencorev1beta1.Shoot {
		return &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: gardencorev1beta1.ShootStatus{
				ObservedGeneration: observed,
				LastOperation:      &gardencorev1beta1.LastOperation{State: state, LastUpdateTime: metav1.NewTime(now.Add(-age))},
			},
		}
	}

	require.True(t, due(&gardencorev1beta1.Shoot{}, now), "a new Shoot")
	require.True(t, due(in(gardencorev1beta1.LastOperationStateSucceeded, 0, 1), now), "a changed Shoot")
	require.False(t, due(in(gardencorev1beta1.LastOperationStateSucceeded, time.Hour, 2), now))
	require.True(t, due(in(gardencorev1beta1.LastOperationStatePending, 0, 2), now))
	require.False(t, due(in(gardencorev1beta1.LastOperationStateError, retryAfter-1, 2), now))
	require.True(t, due(in(gardencorev1beta1.LastOperationStateError, retryAfter, 2), now))
	require.False(t, due(in(gardencorev1beta1.LastOperationStateFailed, time.Hour, 2), now), "only a change can help")
	require.True(t, due(in(gardencorev1beta1.LastOperationStateFailed, 0, 1), now))
	require.True(t, due(in(gardencorev1beta1.LastOperationStateProcessing, 0, 2), now), "an operation that was not finished")

	deleted := func(s *gardencorev1beta1.Shoot) *gardencorev1beta1.Shoot {
		s.DeletionTimestamp = &metav1.Time{Time: now}

		return s
	}
	require.True(t, due(deleted(in(gardencorev1beta1.LastOperationStateSucceeded, 0, 2)), now), "a Shoot that was not released")
	require.False(t, due(deleted(in(gardencorev1beta1.LastOperationStateError, retryAfter-1, 2)), now))
	require.False(t, due(deleted(in(gardencorev1beta1.LastOperationStateFailed, time.Hour, 2)), now))
}

// TestOperation requires the status of each stage of an operation to be what kubectl shows.
func TestOperation(t *testing.T) {
	t.Parallel()

	s := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	last := func() *gardencorev1beta1.LastOperation { return s.Status.LastOperation }

	begin(&s.Status, s, gardencorev1beta1.LastOperationTypeCreate)
	require.Equal(t, int64(3), s.Status.ObservedGeneration)
	require.Equal(t, gardencorev1beta1.LastOperationStateProcessing, last().State)

	progress(&s.Status, "Deploying Shoot infrastructure", 12)
	require.Equal(t, int32(12), last().Progress)
	require.Equal(t, "Deploying Shoot infrastructure", last().Description)

	fail(&s.Status, "Deploying Shoot infrastructure", errors.New("timeout"))
	require.Equal(t, gardencorev1beta1.LastOperationStateError, last().State)
	require.Equal(t, int32(12), last().Progress)
	require.Len(t, s.Status.LastErrors, 1)
	require.Empty(t, s.Status.LastErrors[0].Codes)

	fail(&s.Status, "Deploying Shoot infrastructure", v1beta1helper.NewErrorWithCodes(errors.New("no such zone"), gardencorev1beta1.ErrorConfigurationProblem))
	require.Equal(t, gardencorev1beta1.LastOperationStateFailed, last().State)
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}, s.Status.LastErrors[0].Codes)

	succeed(&s.Status)
	require.Equal(t, gardencorev1beta1.LastOperationStateSucceeded, last().State)
	require.Equal(t, gardencorev1beta1.LastOperationTypeCreate, last().Type)
	require.Equal(t, int32(100), last().Progress)
	require.Empty(t, s.Status.LastErrors)
}

// TestChangedConditions requires the times of conditions to be those that gardenlet writes.
func TestChangedConditions(t *testing.T) {
	t.Parallel()

	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := testclock.NewFakeClock(begun)
	healthy := []gardencorev1beta1.Condition{{Type: gardencorev1beta1.ShootEveryNodeReady, Status: gardencorev1beta1.ConditionTrue, Reason: "Healthy", Message: "a"}}

	first := changedConditions(nil, healthy, now)
	require.Len(t, first, 1)
	require.Equal(t, begun, first[0].LastTransitionTime.Time)
	require.Empty(t, changedConditions(first, healthy, now), "nothing has changed")

	now.Step(time.Minute)

	broken := slices.Clone(healthy)
	broken[0].Status = gardencorev1beta1.ConditionFalse
	broken[0].Codes = []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorInfraUnauthenticated}

	second := changedConditions(first, broken, now)
	require.Len(t, second, 1)
	require.Equal(t, broken[0].Codes, second[0].Codes)
	require.Equal(t, begun.Add(time.Minute), second[0].LastTransitionTime.Time)

	now.Step(time.Minute)

	broken[0].Message = "b"

	third := changedConditions(second, broken, now)
	require.Len(t, third, 1)
	require.Equal(t, second[0].LastTransitionTime, third[0].LastTransitionTime, "the status is the same")
	require.Equal(t, begun.Add(2*time.Minute), third[0].LastUpdateTime.Time)
}
