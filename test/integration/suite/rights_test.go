// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRights_UnusedPermissions lists unused permissions only after a run of all tests: a single test
// uses few of them.
func TestRights_UnusedPermissions(t *testing.T) {
	t.Parallel()

	r := rights{granted: map[string]bool{"machine-controller: delete virtualmachines": true}, used: map[string]map[string]bool{}}
	require.NotContains(t, r.String(), "delete virtualmachines")
	require.Contains(t, r.String(), "not every test was run")
	require.False(t, r.wrong())

	r.whole = true
	require.Contains(t, r.String(), "granted, and never used: machine-controller: delete virtualmachines")
	require.True(t, r.wrong())
}
