package providercluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestEnterLoop_Bound(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock})

	for i := range maxInLoop {
		require.True(t, m.enterLoop(types.UID(strconv.Itoa(i)), "s/here"))
	}

	require.False(t, m.enterLoop("late", "s/here"), "the loop is full")
	require.True(t, m.enterLoop("7", "s/here"), "a machine in the loop stays in it")

	require.True(t, m.enterLoop("there", "s/there"), "each namespace has its own loop")

	m.leaveLoop("7")
	require.True(t, m.enterLoop("late", "s/here"), "a machine has left the loop")

	clock.Step(loopRetention + time.Second)
	require.True(t, m.enterLoop("later", "s/here"), "machines without recent calls do not count")
}
