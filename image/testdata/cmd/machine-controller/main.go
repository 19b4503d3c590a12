// Command machine-controller stands for the program of that name: it is small, and built in the same way.
package main

import (
	"fmt"
	"os"
)

var version, revision string

func main() {
	fmt.Fprintln(os.Stdout, "machine-controller", version, revision)
}
