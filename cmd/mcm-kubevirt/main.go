// Command mcm-kubevirt runs the KubeVirt driver of machine-controller-manager over gRPC, and
// contains the tools for operators: each subcommand has a file with its flags, and calls the
// driver's packages. It needs no terminal and no home directory, so it also runs in the sidecar's
// image.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
)

const (
	exitInvalid = 1
	exitUsage   = 2

	// exitCodes is a part of the help of each command that reads manifests.
	exitCodes = `
Exit codes:
  0  no errors; there may be warnings
  1  the manifests have errors
  2  the command line is invalid, or a file cannot be read
`
)

func main() {
	os.Exit(execute())
}

// execute runs the command line of this process, and returns its exit code.
func execute() int {
	err := rootCommand().ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcm-kubevirt:", err)
	}

	return exitCode(err)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mcm-kubevirt",
		Short:         "Run the KubeVirt driver of machine-controller-manager over gRPC, and check its configuration and machines",
		Version:       driveroptions.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	wrapHelp(root)
	root.AddCommand(validateCommand(), renderCommand(), preflightCommand(), diagnoseCommand(), serveCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print the version, as --version does",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), root.Name(), root.Version) },
	})

	return root
}

// An invalidError means that the command line is valid, but its input is not.
type invalidError string

func (e invalidError) Error() string { return string(e) }

// exitCode distinguishes invalid manifests from an invalid command line for scripts.
func exitCode(err error) int {
	var invalid invalidError

	switch {
	case err == nil:
		return 0
	case errors.As(err, &invalid):
		return exitInvalid
	default:
		return exitUsage
	}
}
