// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/klog/v2"
)

// Text is the output format for people.
const Text = "text"

// Flags are kubectl's flags for the output of a command, with the additional format text.
type Flags struct {
	genericclioptions.PrintFlags

	// Format is the value of --output.
	Format string
}

// NewFlags returns the flags with a default format. Only objects of the API can be printed by name.
func NewFlags(format string, names bool) *Flags {
	f := &Flags{PrintFlags: *genericclioptions.NewPrintFlags(""), Format: format}
	f.OutputFormat = &f.Format

	if !names {
		f.NamePrintFlags = nil
	}

	return f
}

// AddTo adds the flags to a command, and completes the formats.
func (f *Flags) AddTo(cmd *cobra.Command) {
	f.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(&f.Format, "output", "o", f.Format, "Output format: "+strings.Join(f.formats(), ", ")+". Use another one than text in scripts.")
	f.OutputFlagSpecified = func() bool { return cmd.Flag("output").Changed }
	CompleteFlag(cmd, "output", cobra.FixedCompletions(f.formats(), cobra.ShellCompDirectiveNoFileComp))
}

// formats returns the most important formats.
func (f *Flags) formats() []string {
	return slices.Concat([]string{Text, "yaml", "json"}, f.NamePrintFlags.AllowedFormats(), []string{"go-template", "jsonpath"})
}

// IsText reports whether the output is for people.
func (f *Flags) IsText() bool {
	return f.Format == Text && *f.TemplatePrinterFlags.TemplateArgument == ""
}

// Validate refuses an unknown format, and a template that cannot be parsed.
func (f *Flags) Validate() error {
	if f.IsText() {
		return nil
	}

	_, err := f.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return fmt.Errorf("--output must be one of %s; --help lists the flags", strings.Join(f.formats(), ", "))
	}

	return err
}

// Print prints the result of a command: as page for people, or for scripts.
func (f *Flags) Print(out io.Writer, result any, page Page) error {
	if f.IsText() {
		return page.Write(out, result)
	}

	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return f.PrintObjects(out, &runtime.Unknown{Raw: raw})
}

// PrintObjects prints objects for scripts.
func (f *Flags) PrintObjects(out io.Writer, objects ...runtime.Object) error {
	printer, err := f.ToPrinter()

	for _, object := range objects {
		if err == nil {
			err = printer.PrintObj(object, out)
		}
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return nil
}

// DiscardLogs discards the log of the driver's packages, which is intended for a long-running
// process: for example, they log each kubeconfig that points to a different server or namespace.
// Errors are still written to standard error.
func DiscardLogs() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// completionTimeout bounds how long a shell waits after the completion key is pressed.
const completionTimeout = 3 * time.Second

// CompleteFlag registers the completion of a flag, which the command must have.
func CompleteFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The flag does not exist, which is a programming error.
	}
}

// Completing returns a completion with the words that are not among the arguments yet.
func Completing(words func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		DiscardLogs()

		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()

		return slices.DeleteFunc(words(ctx), func(word string) bool { return slices.Contains(given, word) }), cobra.ShellCompDirectiveNoFileComp
	}
}
