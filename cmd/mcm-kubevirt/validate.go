package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func validateCommand() *cobra.Command {
	var (
		files    []string
		accepted []string
		assumed  assumedFlags
		output   *string
	)

	cmd := &cobra.Command{
		Use:   "validate -f FILE…",
		Short: "Validate MachineClasses, MachineDeployments and Secrets, without access to a cluster",
		Long: `Reads manifests of MachineClasses, MachineDeployments and Secrets, and lists all errors and warnings, each with its line and field. An
error prevents machines from being created; a warning may be intended, and can be accepted with --accept. Secrets that a MachineClass refers
to are checked if the files contain them; their content is never printed. Objects of other kinds are skipped. Warnings about a providerSpec
are listed once it has no errors, and those that several MachineClasses share are listed once.
` + exitCodes,
		Example: `  mcm-kubevirt validate -f machineclass.yaml -f secret.yaml
  mcm-kubevirt validate -f manifests --accept=providerSpec.networks
  kubectl get machineclasses,machinedeployments -o yaml | mcm-kubevirt validate -f - -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return validate(files, assumed.allowed(), accepted, *output, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	addFilenameFlag(cmd, &files)
	assumed.addTo(cmd)
	cmd.Flags().StringSliceVar(&accepted, "accept", nil,
		"Field whose warnings are intended, such as providerSpec.networks: they are counted, but not listed. May be repeated.")
	output = addOutputFlag(cmd, outputText)

	return cmd
}

func validate(files []string, allowed validation.Options, accepted []string, format string, in io.Reader, out io.Writer) error {
	m, err := readManifests(files, in)
	if err == nil && len(m.deployments) == 0 {
		err = m.requireClass()
	}

	if err != nil {
		return err
	}

	result := newReport(m, allowed)
	result.accept(accepted)

	if err := printResult(out, format, result, reportText, template.FuncMap{"own": ownWarnings}); err != nil {
		return err
	}

	if result.Errors > 0 {
		return invalidError("the manifests have errors")
	}

	return nil
}

// newReport validates all manifests.
func newReport(m *manifests, allowed validation.Options) *report {
	result := &report{Classes: []classReport{}, Unreadable: m.unreadable, Skipped: m.skipped, Errors: len(m.unreadable)}
	first := map[types.NamespacedName]*classReport{}

	for _, class := range m.classes {
		validated := validateClass(class, m.secrets, allowed)
		key := types.NamespacedName{Namespace: class.Namespace, Name: class.Name}

		if other, twice := first[key]; twice && class.Name != "" {
			validated.fail("metadata.name", fmt.Sprintf("Duplicate value: %q: MachineClass %s is also defined at %s:%d; rename or remove one of them",
				class.Name, other.QualifiedName(), other.File, other.Line))
		} else {
			first[key] = &validated
		}

		validated.addLines(class.document.lines)
		result.Classes = append(result.Classes, validated.sorted())
	}

	for i := range m.deployments {
		validated := m.deployments[i].validated(m.classes)
		validated.addLines(m.deployments[i].document.lines)
		result.Deployments = append(result.Deployments, validated.sorted())
	}

	for _, r := range slices.Concat(result.Classes, result.Deployments) {
		result.Errors += len(r.Errors)
		result.Warnings += len(r.Warnings)
	}

	return result
}

func validateClass(class machineClass, secrets []secret, allowed validation.Options) classReport {
	parsed := class.report.Errors
	validated := class.report
	validated.addErrors(excludeReported(machineclass.Errors(class.MachineClass), parsed))
	validated.addErrors(excludeReported(machineclass.NodeTemplateErrors(class.MachineClass), parsed))

	spec, errs := validation.Decode(class.ProviderSpec.Raw, allowed)
	validated.addErrors(errs)

	data := dataOf(class, secrets, &validated)
	validated.addErrors(validation.UserDataErrors(data.values[apiv1alpha1.SecretKeyUserData]))

	// Otherwise the warnings would be about unintended values.
	if len(errs) == 0 && len(parsed) == 0 {
		validated.addWarnings(class.warnings(spec))
		validated.addWarnings(validation.UserDataWarnings(spec, machineclass.Architecture(class.MachineClass), data.values[apiv1alpha1.SecretKeyUserData]))
	}

	return validated
}

// excludeReported drops errors in fields of the class that could not be fully
// parsed: the missing parts have been reported.
func excludeReported(errs field.ErrorList, reported []finding) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(reported, func(f finding) bool { return f.Field != "" && topLevelField(f.Field) == topLevelField(err.Field) })
	})
}

func topLevelField(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}

	return path
}

// warnings returns the warnings about a class whose spec has no errors.
func (c machineClass) warnings(spec *apiv1alpha1.ProviderSpec) []validation.Warning {
	return slices.Concat(machineclass.Warnings(c.MachineClass), machineclass.NodeTemplateWarnings(c.MachineClass, spec), validation.Warnings(spec), localURLWarnings(spec))
}

// machineClass is a MachineClass of a file.
type machineClass struct {
	*v1alpha1.MachineClass

	document document
	// report contains the errors in its text and its fields, except those in the providerSpec.
	report classReport
}

func readClass(d document, is metav1.TypeMeta) machineClass {
	object := &v1alpha1.MachineClass{}
	errs := append(apiv1alpha1.DecodeStrict(d.raw, nil, object), apiVersionErrors(is)...)

	report := newClassReport(d, &object.ObjectMeta)
	for _, text := range append(d.duplicates, tooLarge(d.raw)...) {
		report.fail("", text)
	}

	report.addErrors(errs)
	report.addErrors(excludeReported(metadataErrors(kindMachineClass, &object.ObjectMeta), report.Errors))

	return machineClass{MachineClass: object, document: d, report: report.sorted()}
}

// apiVersionErrors returns the error of an object in another version of machine-controller-manager's API.
func apiVersionErrors(is metav1.TypeMeta) field.ErrorList {
	version := v1alpha1.SchemeGroupVersion.String()
	if is.APIVersion == version {
		return nil
	}

	return field.ErrorList{field.NotSupported(field.NewPath("apiVersion"), is.APIVersion, []string{version})}
}

// metadataErrors returns the errors of the API server for the metadata of an object. kubectl apply accepts no
// generated name, and a MachineDeployment cannot refer to one.
func metadataErrors(kind string, object *metav1.ObjectMeta) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(object, object.Namespace != "", apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))

	for _, err := range errs {
		if err.Type == field.ErrorTypeRequired && err.Field == "metadata.name" {
			err.Detail = "set the name of the " + kind
		}
	}

	return errs
}

// maxRequest is etcd's default limit for a request, and so for an object, in bytes.
const maxRequest = 3 << 19

// tooLarge returns an error if an object exceeds etcd's limit as the API server stores it: without
// spaces between its fields.
func tooLarge(raw []byte) []string {
	if len(raw) <= maxRequest {
		return nil
	}

	var stored bytes.Buffer
	if err := json.Compact(&stored, raw); err != nil || stored.Len() <= maxRequest {
		return nil // Invalid JSON is reported separately.
	}

	return []string{fmt.Sprintf("the object has %d bytes, but etcd accepts at most %d (1.5 MiB); shorten it", stored.Len(), maxRequest)}
}

// sample decodes a Machine of the class as the driver would. The error lists the errors of the
// class.
func (c machineClass) sample(machine *v1alpha1.Machine, data map[string][]byte, allowed validation.Options) (*spi.CreateMachineInput, error) {
	if len(c.report.Errors) > 0 {
		texts := make([]string, len(c.report.Errors))
		for i, f := range c.report.Errors {
			texts[i] = f.String()
		}

		return nil, errors.New(strings.Join(texts, "; "))
	}

	return machineclass.DecodeCreateMachine(machine, c.MachineClass, &corev1.Secret{Data: data}, allowed)
}
