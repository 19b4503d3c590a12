package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

func validateCommand() *cobra.Command {
	flags := newManifestFlags(outputText)

	cmd := &cobra.Command{
		Use:   "validate -f FILE…",
		Short: "Validate MachineClasses and their Secrets, without access to a cluster",
		Long: `Reads manifests of MachineClasses and Secrets, and lists all errors and warnings, each with its field. An error prevents machines from
being created; a warning may be intended. Secrets that a MachineClass refers to are checked if the files contain them; their content is
never printed. Objects of other kinds are skipped. Warnings about a providerSpec are listed once it has no errors.
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

	result := newReport(m, flags.allowed())
	if err := result.print(out, flags.output.value); err != nil {
		return err
	}

	if result.Errors > 0 {
		return &invalidError{reason: "the manifests have errors"}
	}

	return nil
}

// newReport validates all manifests.
func newReport(m *manifests, allowed validation.Options) report {
	result := report{Classes: []classReport{}, Unreadable: m.unreadable, Skipped: m.countSkipped(), Errors: len(m.unreadable)}

	names := classNames{}

	for _, class := range m.classes {
		validated := validateClass(class, m.secrets, allowed)
		validated.addErrors(names.add(class))

		result.Classes = append(result.Classes, validated.sorted())
		result.Errors += len(validated.Errors)
		result.Warnings += len(validated.Warnings)
	}

	return result
}

func validateClass(class machineClass, secrets []secret, allowed validation.Options) classReport {
	validated := newClassReport(class)
	validated.addErrors(excludeReported(machineclass.Errors(class.MachineClass), class.fieldErrors))
	validated.addErrors(excludeReported(machineclass.NodeTemplateErrors(class.MachineClass), class.fieldErrors))

	spec, errs := validation.Decode(class.ProviderSpec.Raw, allowed)
	validated.addErrors(errs)

	data := secretsOf(class, secrets)
	validated.Errors = append(validated.Errors, data.errors...)
	validated.Warnings = append(validated.Warnings, data.warnings...)

	// Otherwise the warnings would be about unintended values.
	if len(errs) == 0 && class.parsed() {
		validated.addSpecWarnings(class, spec)
		validated.addWarnings(validation.UserDataWarnings(spec, data.values[apiv1alpha1.SecretKeyUserData]))
	}

	return validated
}

// excludeReported drops errors in fields of the class that could not be fully
// parsed: the missing parts have been reported.
func excludeReported(errs, reported field.ErrorList) field.ErrorList {
	var left field.ErrorList

	for _, err := range errs {
		if !slices.ContainsFunc(reported, func(f *field.Error) bool { return topLevelField(f.Field) == topLevelField(err.Field) }) {
			left = append(left, err)
		}
	}

	return left
}

func topLevelField(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}

	return path
}

// addSpecWarnings adds the warnings for a class whose spec has no errors.
func (r *classReport) addSpecWarnings(class machineClass, spec *apiv1alpha1.ProviderSpec) {
	r.addWarnings(machineclass.Warnings(class.MachineClass))
	r.addWarnings(machineclass.NodeTemplateWarnings(class.MachineClass, spec))
	r.addWarnings(validation.Warnings(spec))
}
