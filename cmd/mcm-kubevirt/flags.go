package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// choice is a flag that accepts only certain words.
type choice struct {
	value   string
	allowed []string
}

var _ pflag.Value = (*choice)(nil)

// String returns the value.
func (c *choice) String() string {
	return c.value
}

// Set rejects a value that is not allowed.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}

	c.value = value

	return nil
}

// Type returns the placeholder for the value in the help.
func (c *choice) Type() string {
	return strings.Join(c.allowed, "|")
}

// manifestFlags specify the files to read, the rules for their validation and the output format.
type manifestFlags struct {
	files      []string
	output     choice
	template   choice
	evacuation bool
}

func newManifestFlags(output string) manifestFlags {
	policies := make([]string, len(validation.TemplatePolicies))
	for i, policy := range validation.TemplatePolicies {
		policies[i] = string(policy)
	}

	return manifestFlags{
		output:   choice{value: output, allowed: []string{outputText, outputYAML, outputJSON}},
		template: choice{value: string(validation.TemplateSafe), allowed: policies},
	}
}

func (f *manifestFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil,
		`File with manifests in YAML or JSON, folder with such files (*.yaml, *.yml, *.json; not recursive), or "-" for standard input. May be `+
			`repeated.`)
	flags.VarP(&f.output, "output", "o", "Output format; use yaml or json in scripts.")
	flags.Var(&f.template, "virtual-machine-template",
		"Allowed content of virtualMachineTemplate in a providerSpec; set it to the value of the machine controller's flag.")
	flags.BoolVar(&f.evacuation, "evacuation", false,
		"Set it if the machine controller runs with --evacuation: machines then have evictionStrategy External, unless their class sets another one.")
}

// complete registers the completions of the flags.
func (f *manifestFlags) complete(cmd *cobra.Command) {
	completeChoices(cmd, "output", f.output.allowed)
	completeChoices(cmd, "virtual-machine-template", f.template.allowed)
}

func (f *manifestFlags) allowed() validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(f.template.value), Evacuation: f.evacuation}
}

// noArguments rejects arguments and explains them: a shell passes all files
// of "-f *.yaml" but the first as arguments.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	return fmt.Errorf("unexpected argument %q; write -f before each file, or once before their folder", args[0])
}
