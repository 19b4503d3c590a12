// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestRequestsPerMethod compares every method's number of provider API requests with its budget.
func TestRequestsPerMethod(t *testing.T) {
	t.Parallel()

	for _, count := range harness.CountRequests(t) {
		t.Logf("%-40s %d reads, %d writes, %d watches (budget: %v)", count.Method, count.Reads, count.Writes, count.Watches, count.Budget)
		require.LessOrEqual(t, count.Reads, count.Budget[0], count.Method+": reads")
		require.LessOrEqual(t, count.Writes, count.Budget[1], count.Method+": writes")
		require.LessOrEqual(t, count.Watches, count.Budget[2], count.Method+": watches")
		require.LessOrEqual(t, count.Sum(), count.Total, count.Method)
	}
}
