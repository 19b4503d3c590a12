// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

func TestFreePortsAreDifferent(t *testing.T) {
	t.Parallel()
	const n, firstOutgoing = 50, 32768
	ports, err := process.FreePorts(t.Context(), n)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range ports {
		require.Less(t, port, firstOutgoing)
		seen[port] = true
	}
	require.Len(t, seen, n)
}
