package providercluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCreationLoopIsBounded(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	loop := newCreationLoop(clock)
	here, there := loopPlace{server: "s", namespace: "ns"}, loopPlace{server: "other", namespace: "ns"}

	for i := range maxInLoop {
		require.True(t, loop.enter(here, strconv.Itoa(i)))
	}

	require.False(t, loop.enter(here, "late"), "the loop is full")
	require.True(t, loop.enter(here, "7"), "who is in stays in")

	require.True(t, loop.enter(there, "late"), "each place for itself")

	loop.leave(here, "7")
	require.True(t, loop.enter(here, "late"), "a place was free")

	clock.SetTime(clock.Now().Add(forgetAfter + time.Second))
	require.True(t, loop.enter(here, "later"), "machines that nobody asks about any more are forgotten")
}

func TestCreationLoopsAreBounded(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	loop := newCreationLoop(clock)
	first := loopPlace{server: "s", namespace: "0"}

	for i := range 2 * maxLoops {
		clock.SetTime(clock.Now().Add(time.Millisecond))
		require.True(t, loop.enter(loopPlace{server: "s", namespace: strconv.Itoa(i)}, "m"), "others do not keep a place from its loop")
		require.True(t, loop.enter(first, "m"))
	}

	require.Len(t, loop.places, maxLoops)
	require.Contains(t, loop.places, first, "who is asked about stays")

	loop.leave(first, "m")
	require.NotContains(t, loop.places, first, "an empty loop is forgotten")

	clock.SetTime(clock.Now().Add(forgetAfter + time.Second))
	require.True(t, loop.enter(first, "m"))
	require.Len(t, loop.places, 1, "nobody asks about the others any more")
}
