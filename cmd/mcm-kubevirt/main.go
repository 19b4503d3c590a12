// Command mcm-kubevirt holds the operator's tools for the KubeVirt driver of machine-controller-manager. It only wires: each
// subcommand is a file, and calls the driver's own packages.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := rootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "mcm-kubevirt:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mcm-kubevirt",
		Short:         "Tools for the KubeVirt driver of machine-controller-manager",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(renderCommand())

	return root
}
