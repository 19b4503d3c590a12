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
	here, there := loopKey{server: "s", namespace: "ns"}, loopKey{server: "other", namespace: "ns"}

	for i := range maxInLoop {
		require.True(t, loop.enter(here, strconv.Itoa(i)))
	}

	require.False(t, loop.enter(here, "late"), "the loop is full")
	require.True(t, loop.enter(here, "7"), "a machine in the loop stays in it")

	require.True(t, loop.enter(there, "late"), "each namespace has its own loop")

	loop.leave(here, "7")
	require.True(t, loop.enter(here, "late"), "a machine has left the loop")

	clock.SetTime(clock.Now().Add(loopRetention + time.Second))
	require.True(t, loop.enter(here, "later"), "machines without recent calls are removed")
}

func TestCreationLoopsAreBounded(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	loop := newCreationLoop(clock)
	first := loopKey{server: "s", namespace: "0"}

	for i := range 2 * maxLoops {
		clock.SetTime(clock.Now().Add(time.Millisecond))
		require.True(t, loop.enter(loopKey{server: "s", namespace: strconv.Itoa(i)}, "m"), "a new loop replaces the least recently used one")
		require.True(t, loop.enter(first, "m"))
	}

	require.Len(t, loop.namespaces.Keys(), maxLoops)
	require.Contains(t, loop.namespaces.Keys(), any(first), "the loop with recent calls stays")

	clock.SetTime(clock.Now().Add(loopRetention + time.Second))
	require.True(t, loop.enter(first, "m"))
	require.Len(t, loop.namespaces.Keys(), 1, "loops without recent calls are removed")
}
