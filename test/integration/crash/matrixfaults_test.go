//go:build !soak

package crash

import (
	"slices"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// matrixFaults are one of each kind, since a life takes its time: the others end in the same places of the driver, and
// TestBlipsNeverShow has some of them. `make soak` has all. Those after which the driver, or machine-controller-manager, asks the same
// again happen in one life: what is carried out comes last, and a process that dies then has a life of its own.
func matrixFaults() [][]harness.Fault {
	return [][]harness.Fault{
		faultsNamed("409", "dies before", "webhook", "EOF after"),
		faultsNamed("dies after"),
	}
}

func faultsNamed(names ...string) []harness.Fault {
	all, named := harness.Faults(), make([]harness.Fault, 0, len(names))

	for _, name := range names {
		named = append(named, all[slices.IndexFunc(all, func(f harness.Fault) bool { return f.Name == name })])
	}

	return named
}
