package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

func validateCommand() *cobra.Command {
	flags := newManifestFlags(outputText)

	cmd := &cobra.Command{
		Use:   "validate -f FILE…",
		Short: "Say what is wrong with MachineClasses and their Secrets, without any cluster",
		Long: `Reads manifests of MachineClasses and Secrets, and names all errors and warnings at once, each with its field. An error keeps
machines from being created; a warning may be meant. Secrets that a MachineClass refers to are checked if they are among the
files; what they hold is never printed. Objects of other kinds are passed over. Warnings about a providerSpec appear once it has no
errors.
` + exitCodes,
		Example: `  mcm-kubevirt validate -f machineclass.yaml -f secret.yaml
  kubectl get machineclasses -o yaml | mcm-kubevirt validate -f - -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return validate(flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags.addTo(cmd.Flags())
	flags.complete(cmd)

	return cmd
}

func validate(flags manifestFlags, in io.Reader, out io.Writer) error {
	m, err := readManifests(flags.files, in)
	if err != nil {
		return err
	}

	if len(m.classes) == 0 && len(m.unreadable) == 0 {
		return m.noClass()
	}

	result := judge(m, flags.allowed())
	if err := result.print(out, flags.output.value); err != nil {
		return err
	}

	if result.Errors > 0 {
		return &invalidError{reason: "the manifests have errors"}
	}

	return nil
}

// judge validates all manifests.
func judge(m *manifests, allowed validation.Options) report {
	result := report{Classes: []classReport{}, Unreadable: m.unreadable, PassedOver: m.countPassedOver(), Errors: len(m.unreadable)}

	names := classNames{}

	for _, class := range m.classes {
		judged := judgeClass(class, m.secrets, allowed)
		judged.addErrors(names.add(class))

		result.Classes = append(result.Classes, judged.sorted())
		result.Errors += len(judged.Errors)
		result.Warnings += len(judged.Warnings)
	}

	return result
}

func judgeClass(class machineClass, secrets []secret, allowed validation.Options) classReport {
	judged := newClassReport(class)
	judged.addErrors(news(kubevirt.ClassErrors(class.MachineClass), class.faults))
	judged.addErrors(news(kubevirt.NodeTemplateErrors(class.MachineClass), class.faults))

	spec, errs := validation.Decode(class.ProviderSpec.Raw, allowed)
	judged.addErrors(errs)

	data := secretsOf(class, secrets)
	judged.Errors = append(judged.Errors, data.errors...)
	judged.Warnings = append(judged.Warnings, data.warnings...)

	// Otherwise the warnings would be about unintended values.
	if len(errs) == 0 && class.sound() {
		judged.addSpecWarnings(class, spec)
		judged.addWarnings(validation.UserDataWarnings(spec, data.values[apiv1alpha1.SecretKeyUserData]))
	}

	return judged
}

// news drops errors in fields of the class that could not be fully
// parsed: the missing parts have been reported.
func news(errs, faults field.ErrorList) field.ErrorList {
	var left field.ErrorList

	for _, err := range errs {
		if !slices.ContainsFunc(faults, func(f *field.Error) bool { return outermost(f.Field) == outermost(err.Field) }) {
			left = append(left, err)
		}
	}

	return left
}

func outermost(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}

	return path
}

// addSpecWarnings adds the warnings for a class whose spec has no errors.
func (r *classReport) addSpecWarnings(class machineClass, spec *apiv1alpha1.ProviderSpec) {
	r.addWarnings(kubevirt.ClassWarnings(class.MachineClass))
	r.addWarnings(kubevirt.NodeTemplateWarnings(class.MachineClass, spec))
	r.addWarnings(validation.Warnings(spec))
}
