//go:build !soak

package integration

import "slices"

// matrixFaults are one of each kind, since a life takes its time: the others end in the same places of the driver, and
// TestBlipsNeverShow has some of them. `make soak` has all.
func matrixFaults() []fault {
	kinds := []string{"dies before", "dies after", "EOF after", "409", "webhook"}

	return slices.DeleteFunc(faults(), func(f fault) bool { return !slices.Contains(kinds, f.name) })
}
