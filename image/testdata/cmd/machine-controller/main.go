// Command machine-controller is a small stand-in for the
// program of that name, built in the same way.
package main

import (
	"fmt"
	"os"
)

var version, revision string

func main() {
	fmt.Fprintln(os.Stdout, "machine-controller", version, revision)
}
