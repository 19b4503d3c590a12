//go:build soak

package integration

// matrixFaults are all there are.
func matrixFaults() []fault {
	return faults()
}
