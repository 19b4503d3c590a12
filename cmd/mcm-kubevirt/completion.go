package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completionTimeout bounds how long a shell waits after the completion key is pressed.
const completionTimeout = 3 * time.Second

// completion is cobra's function that completes a word in a shell.
type completion = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeFlag registers the completion of a flag, which the command must have.
func completeFlag(cmd *cobra.Command, flag string, complete completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The flag does not exist, which is a programming error.
	}
}

// completeChoices completes a flag that accepts only the given words.
func completeChoices(cmd *cobra.Command, flag string, words []string) {
	completeFlag(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// complete registers the completions of the flags for the control cluster.
func (f *clusterFlags) complete(cmd *cobra.Command) {
	completeFlag(cmd, "context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.contexts(), cobra.ShellCompDirectiveNoFileComp
	})
	completeFlag(cmd, "namespace", f.completing((*controlCluster).namespaces))
}

func (f *clusterFlags) contexts() []string {
	config, err := f.rules().Load()
	if err != nil {
		return nil
	}

	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}

	slices.Sort(names)

	return names
}

// completeMachines completes names of Machines that are not among the arguments yet.
func (o *diagnoseOptions) completeMachines(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, directive := o.completing((*controlCluster).machineNames)(cmd, given, "")

	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) }), directive
}

// completing returns a completion with names from the control cluster. It
// completes nothing if the cluster cannot be read.
func (f *clusterFlags) completing(list func(*controlCluster, context.Context) []string) completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		discardLogs()

		control, err := f.control()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()

		return list(control, ctx), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *controlCluster) machineNames(ctx context.Context) []string {
	list, err := c.Machines.MachineV1alpha1().Machines(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}

	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}

	return names
}

func (c *controlCluster) namespaces(ctx context.Context) []string {
	list, err := c.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}

	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}

	return names
}

// completeClasses completes names of MachineClasses in the given files.
func (o *renderOptions) completeClasses(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if slices.Contains(o.files, "-") { // Standard input is the terminal.
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	m, err := readManifests(o.files, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	var names []string
	for _, class := range m.classes {
		names = append(names, class.Name)
	}

	slices.Sort(names)

	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
