package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// choice is a flag that accepts only certain words.
type choice struct {
	value   string
	allowed []string
}

var _ pflag.Value = (*choice)(nil)

// String returns the value.
func (c *choice) String() string { return c.value }

// Type returns the placeholder for the value in the help.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set rejects a value that is not allowed.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}

	c.value = value

	return nil
}

// addTo adds the flag to a command, and completes its words.
func (c *choice) addTo(cmd *cobra.Command, name, shorthand, usage string) {
	cmd.Flags().VarP(c, name, shorthand, usage)
	completeFlag(cmd, name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// addOutputFlag adds the flag for the output format, and returns its value.
func addOutputFlag(cmd *cobra.Command, format string) *string {
	output := &choice{value: format, allowed: []string{outputText, outputYAML, outputJSON}}
	output.addTo(cmd, "output", "o", "Output format; use yaml or json in scripts.")

	return &output.value
}

// assumedFlags are the flags of the machine controller that a command assumes: they are known only
// from its command line.
type assumedFlags struct {
	template   choice
	evacuation bool
}

func (f *assumedFlags) addTo(cmd *cobra.Command) {
	f.template.value = string(validation.TemplateSafe)
	for _, policy := range validation.TemplatePolicies {
		f.template.allowed = append(f.template.allowed, string(policy))
	}

	f.template.addTo(cmd, "virtual-machine-template", "",
		"Allowed content of virtualMachineTemplate in a providerSpec; set it to the value of the machine controller's flag.")
	cmd.Flags().BoolVar(&f.evacuation, "evacuation", false,
		"Set it if the machine controller runs with --evacuation: machines then have evictionStrategy External, unless their class sets another one.")
}

func (f *assumedFlags) allowed() validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(f.template.value), Evacuation: f.evacuation}
}

// list returns the flags as written on a command line.
func (f *assumedFlags) list() []string {
	return []string{fmt.Sprintf("--evacuation=%t", f.evacuation), "--virtual-machine-template=" + f.template.value}
}

// addFilenameFlag adds the flag for the files with manifests.
func addFilenameFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		`File with manifests in YAML or JSON, folder with such files (*.yaml, *.yml, *.json; not recursive), or "-" for standard input. May be `+
			`repeated.`)
}

// noArguments rejects arguments and explains them: a shell passes all files
// of "-f *.yaml" but the first as arguments.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	return fmt.Errorf("unexpected argument %q; write -f before each file, or once before their folder", args[0])
}

// completionTimeout bounds how long a shell waits after the completion key is pressed.
const completionTimeout = 3 * time.Second

// completeFlag registers the completion of a flag, which the command must have.
func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The flag does not exist, which is a programming error.
	}
}

// completing returns a completion with the words that are not among the arguments yet.
func completing(words func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		discardLogs()

		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()

		return slices.DeleteFunc(words(ctx), func(word string) bool { return slices.Contains(given, word) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// contexts returns the contexts in the kubeconfig of the control cluster.
func (f *clusterFlags) contexts(context.Context) []string {
	config, err := f.rules().Load()
	if err != nil {
		return nil
	}

	return slices.Sorted(maps.Keys(config.Contexts))
}

func (f *clusterFlags) machines(ctx context.Context) []string {
	return f.names(func(c *controlCluster) (runtime.Object, error) { return c.machines().List(ctx, metav1.ListOptions{}) })
}

func (f *clusterFlags) namespaces(ctx context.Context) []string {
	return f.names(func(c *controlCluster) (runtime.Object, error) {
		return c.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	})
}

// names returns the names of listed objects; none if the control cluster cannot be read.
func (f *clusterFlags) names(list func(*controlCluster) (runtime.Object, error)) []string {
	control, err := f.control()
	if err != nil {
		return nil
	}

	objects, err := list(control)
	if err != nil {
		return nil
	}

	var names []string

	_ = meta.EachListItem(objects, func(object runtime.Object) error { // An object without a name is left out.
		accessor, err := meta.Accessor(object)
		if err == nil {
			names = append(names, accessor.GetName())
		}

		return err
	})

	return names
}

// classes returns the names of the MachineClasses in the given files.
func (o *renderOptions) classes(context.Context) []string {
	if slices.Contains(o.files, "-") { // Standard input is the terminal.
		return nil
	}

	m, err := readManifests(o.files, nil)
	if err != nil {
		return nil
	}

	return slices.Compact(slices.Sorted(slices.Values(m.classNames())))
}
