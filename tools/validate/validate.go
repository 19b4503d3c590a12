// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package validate implements the command validate of mcm-kubevirt: it reads manifests and reports their errors and
// warnings. It reaches no cluster.
package validate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// options specify the manifests and the accepted warnings.
type options struct {
	genericiooptions.IOStreams

	files    manifests.FileFlags
	assumed  manifests.AssumedFlags
	output   *output.Flags
	accepted []string
}

// NewCommand returns the command validate.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, output: output.NewFlags(output.Text, false)}

	cmd := &cobra.Command{
		Use:   "validate -f FILE…",
		Short: "Validate MachineClasses, MachineDeployments and Secrets, without access to a cluster",
		Long: `Reads manifests of MachineClasses, MachineDeployments and Secrets, and lists all errors and warnings, each with its line and field. An
error prevents machines from being created; a warning may be intended, and can be accepted with --accept. Secrets that a MachineClass refers
to are checked if the files contain them; their content is never printed. Objects of other kinds are skipped. Warnings about a providerSpec
are listed once it has no errors, and those that several MachineClasses share are listed once.
` + output.ExitCodes,
		Example: `  mcm-kubevirt validate -f machineclass.yaml -f secret.yaml
  mcm-kubevirt validate -f manifests --accept=providerSpec.networks
  kubectl get machineclasses,machinedeployments -o yaml | mcm-kubevirt validate -f - -o json`,
		Args:    manifests.NoArguments,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}

	o.files.AddFlags(cmd.Flags())
	o.assumed.AddTo(cmd)
	o.output.AddTo(cmd)
	cmd.Flags().StringSliceVar(&o.accepted, "accept", nil,
		"Field whose warnings are intended, such as providerSpec.networks: they are counted, but not listed. May be repeated.")

	return cmd
}

func (o *options) validate() error {
	return errors.Join(o.files.Validate(), o.assumed.Validate(), o.output.Validate())
}

func (o *options) run() error {
	m, err := manifests.Read(&o.files, o.In)
	if err == nil && len(m.Deployments) == 0 {
		err = m.RequireClass()
	}

	if err != nil {
		return err
	}

	result := newReport(m, o.assumed.Options)
	result.accept(o.accepted)

	if err := o.output.Print(o.Out, result, page); err != nil {
		return err
	}

	if result.Errors > 0 {
		return output.InvalidError("the manifests have errors")
	}

	return nil
}

// newReport validates all manifests.
func newReport(m *manifests.Objects, allowed validation.Options) *Report {
	result := &Report{Classes: []manifests.Report{}, Unreadable: m.Unreadable, Skipped: m.Skipped, Errors: len(m.Unreadable)}
	first := map[types.NamespacedName]*manifests.Report{}

	for _, class := range m.Classes {
		validated := validateClass(m, class, allowed)
		key := types.NamespacedName{Namespace: class.Namespace, Name: class.Name}

		if other, twice := first[key]; twice && class.Name != "" {
			validated.Fail("metadata.name", fmt.Sprintf("Duplicate value: %q: MachineClass %s is also defined at %s:%d; rename or remove one of them",
				class.Name, other.QualifiedName(), other.File, other.Line))
		} else {
			first[key] = &validated
		}

		result.Classes = append(result.Classes, validated.Sorted())
	}

	for i := range m.Deployments {
		validated := m.Deployments[i].Validated(m.Classes)
		result.Deployments = append(result.Deployments, validated.Sorted())
	}

	for _, r := range slices.Concat(result.Classes, result.Deployments) {
		result.Errors += len(r.Errors)
		result.Warnings += len(r.Warnings)
	}

	return result
}

func validateClass(m *manifests.Objects, class manifests.Class, allowed validation.Options) manifests.Report {
	parsed := class.Report.Errors
	validated := class.Report
	validated.AddErrors(manifests.ExcludeReported(machineclass.Errors(class.MachineClass), parsed))
	validated.AddErrors(manifests.ExcludeReported(machineclass.NodeTemplateErrors(class.MachineClass), parsed))

	spec, errs := validation.Decode(class.ProviderSpec.Raw, allowed)
	validated.AddErrors(errs)

	data := m.DataOf(class, &validated)
	validated.AddErrors(validation.ValidateUserData(data.Values[apiv1alpha1.SecretKeyUserData]))

	// Otherwise the warnings would be about unintended values.
	if len(errs) == 0 && len(parsed) == 0 {
		validated.AddWarnings(class.Warnings(spec))
		validated.AddWarnings(validation.UserDataWarnings(spec, machineclass.Architecture(class.MachineClass), data.Values[apiv1alpha1.SecretKeyUserData]))
	}

	return validated
}
