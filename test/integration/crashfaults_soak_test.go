//go:build soak

package integration

// matrixFaults are all there are, each in a life of its own.
func matrixFaults() [][]fault {
	var each [][]fault
	for _, f := range faults() {
		each = append(each, []fault{f})
	}

	return each
}
