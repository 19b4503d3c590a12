// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachineName(t *testing.T) {
	t.Parallel()

	for _, given := range []string{
		"m", "machine/m", "machines/m", "mc/m", "machine.machine.sapcloud.io/m", "machines.machine.sapcloud.io/m", "Machine/m",
	} {
		name, err := machineName(given)
		require.NoError(t, err, given)
		require.Equal(t, "m", name, given)
	}

	_, err := machineName("machinedeployment/m")
	require.ErrorContains(t, err, "is not a Machine")
}
