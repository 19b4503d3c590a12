// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command mcm-kubevirt runs the KubeVirt driver of machine-controller-manager over gRPC, and
// contains the commands of folder tools for operators. It needs no terminal and no home directory,
// so it also runs in the sidecar's image.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/validate"
)

func main() {
	os.Exit(execute())
}

// execute runs the command line of this process, and returns its exit code.
func execute() int {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}

	err := rootCommand(streams).ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcm-kubevirt:", err)
	}

	return output.ExitCode(err)
}

func rootCommand(streams genericiooptions.IOStreams) *cobra.Command {
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
	output.WrapHelp(root)
	root.AddCommand(validate.NewCommand(streams), render.NewCommand(streams), preflight.NewCommand(streams), diagnose.NewCommand(streams), serveCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print the version, as --version does",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), root.Name(), root.Version) },
	})

	return root
}
