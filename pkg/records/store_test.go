// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// valueOf returns the record of a key without using it; -1 if there is none.
func valueOf(s *Store[int], key Key) int {
	value := -1
	s.Peek(key, func(r *int) { value = *r })

	return value
}

func TestStore_Expiry(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	s := NewStore[int](clock, time.Hour)

	s.Use("a", func(r *int) { *r = 1 })
	s.Use("b", func(r *int) { *r = 2 })
	require.Equal(t, 1, valueOf(s, "a"))
	require.Equal(t, -1, valueOf(s, "c"), "Peek creates no record")

	step(time.Hour)
	require.Equal(t, 2, valueOf(s, "b"))
	s.Use("a", func(r *int) { *r++ })

	step(time.Second)
	require.Equal(t, -1, valueOf(s, "b"), "Peek does not extend the retention")
	require.Equal(t, 2, valueOf(s, "a"), "Use extends it")

	var all []int

	s.Each(func(r *int) { all = append(all, *r) })
	require.Equal(t, []int{2}, all)

	step(time.Hour)
	s.Use("a", func(r *int) { require.Zero(t, *r, "a new record is zero") })
}

// TestStore_Bound has more records than the store keeps.
func TestStore_Bound(t *testing.T) {
	t.Parallel()

	s := NewStore[int](clocktesting.NewFakePassiveClock(time.Now()), time.Hour)

	for i := range 2 * maxRecords {
		s.Use(Key(strconv.Itoa(i)), func(r *int) { *r = i })
		s.Use("0", func(*int) {})
	}

	require.Equal(t, maxRecords, s.byUse.Len())
	require.Len(t, s.entries, maxRecords)
	require.Equal(t, 0, valueOf(s, "0"), "the record in use stays")
	require.Equal(t, -1, valueOf(s, "1"), "the least recently used record is dropped")
}

// TestStore_Weight changes, drops and expires records.
func TestStore_Weight(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := NewWeighedStore(clock, time.Hour, func(r *int) int64 { return int64(*r) })

	s.Use("a", func(r *int) { *r = 3 })
	s.Use("b", func(r *int) { *r = 4 })
	require.EqualValues(t, 7, s.Weight())

	s.Use("a", func(r *int) { *r = 1 })
	s.Peek("b", func(r *int) { *r = 10 })
	require.EqualValues(t, 11, s.Weight())

	s.Each(func(r *int) { *r *= 2 })
	require.EqualValues(t, 22, s.Weight())

	clock.SetTime(clock.Now().Add(time.Hour))
	s.Use("a", func(*int) {})
	clock.SetTime(clock.Now().Add(time.Second))
	require.EqualValues(t, 2, s.Weight(), "an expired record has no weight")
}
