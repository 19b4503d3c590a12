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

	for i := range maxInLoop {
		require.True(t, loop.enter(strconv.Itoa(i)))
	}

	require.False(t, loop.enter("late"), "the loop is full")
	require.True(t, loop.enter("7"), "who is in stays in")

	loop.leave("7")
	require.True(t, loop.enter("late"), "a place was free")

	clock.SetTime(clock.Now().Add(forgetAfter + time.Second))
	require.True(t, loop.enter("later"), "machines that nobody asks about any more are forgotten")
}
