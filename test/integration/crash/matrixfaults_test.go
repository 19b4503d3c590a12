// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !soak

package crash

import (
	"slices"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// matrixFaults returns one fault of each kind, since a scenario takes long: the driver handles the
// other faults in the same way, and TestBlipsNeverShow injects some of them. `make soak` injects
// all. Faults after which the driver or machine-controller-manager repeats the call share a run of
// a scenario. Among them, the fault of a committed request comes last; a process that dies after a
// commit needs a separate run.
func matrixFaults() [][]harness.Fault {
	return [][]harness.Fault{
		faultsNamed("409", "dies before", "webhook", "EOF after"),
		faultsNamed("dies after"),
	}
}

func faultsNamed(names ...string) []harness.Fault {
	all := harness.Faults()
	named := make([]harness.Fault, 0, len(names))

	for _, name := range names {
		named = append(named, all[slices.IndexFunc(all, func(f harness.Fault) bool { return f.Name == name })])
	}

	return named
}
