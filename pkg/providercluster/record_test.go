// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestUse_OtherUID has VirtualMachines of one name, as after a deletion, or from a server that returns
// another UID each time.
func TestUse_OtherUID(t *testing.T) {
	t.Parallel()

	m := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(time.Now())})

	for i := range 1000 {
		m.use(machineKey{name: "s/ns/m", uid: types.UID(strconv.Itoa(i))}, func(r *record) {
			require.Empty(t, r.reported, "the record of another VirtualMachine is not valid")
			r.reported = "QuotaExceeded"
		})
	}

	count := 0
	m.records.Each(func(*record) { count++ })
	require.Equal(t, 1, count)

	m.peek(machineKey{name: "s/ns/m", uid: "0"}, func(*record) { t.Error("it is the record of another VirtualMachine") })
}
