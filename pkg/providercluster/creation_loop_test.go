// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

func TestEnterLoop_Bound(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock})
	here := &providerapi.Clients{Server: "s", Namespace: "here"}

	for i := range maxInLoop {
		require.True(t, m.enterLoop(here, strconv.Itoa(i)))
	}

	require.False(t, m.enterLoop(here, "late"), "the loop is full")
	require.True(t, m.enterLoop(here, "7"), "a machine in the loop stays in it")

	require.True(t, m.enterLoop(&providerapi.Clients{Server: "s", Namespace: "there"}, "m"), "each namespace has its own loop")
	require.True(t, m.enterLoop(&providerapi.Clients{Server: "other", Namespace: "here"}, "m"), "also on another server")

	m.leaveLoop(here, "7")
	require.True(t, m.enterLoop(here, "late"), "a machine has left the loop")

	clock.Step(loopRetention / 2)
	require.True(t, m.enterLoop(here, "late"))
	clock.Step(loopRetention/2 + time.Second)
	require.True(t, m.enterLoop(here, "later"), "machines without recent calls do not count")
}
