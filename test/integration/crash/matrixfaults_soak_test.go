// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package crash

import (
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// matrixFaults returns all faults, each for a separate run of a scenario.
func matrixFaults() [][]harness.Fault {
	var each [][]harness.Fault
	for _, f := range harness.Faults() {
		each = append(each, []harness.Fault{f})
	}

	return each
}
