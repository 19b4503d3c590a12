// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Class returns the MachineClass with that name, or the only one.
func (m *Objects) Class(name string) (Class, error) {
	found := slices.DeleteFunc(slices.Clone(m.Classes), func(class Class) bool { return name != "" && class.Name != name })
	all := strings.Join(m.ClassNames(), ", ")

	switch {
	case len(found) == 1:
		return found[0], nil
	case len(m.Classes) == 0:
		return Class{}, m.noClass()
	case len(found) == 0:
		return Class{}, fmt.Errorf("the files contain no MachineClass %s, but %s", name, all)
	case name == "":
		return Class{}, fmt.Errorf("the files contain several MachineClasses; select one with --class: %s", all)
	default:
		return Class{}, fmt.Errorf("the files contain several MachineClasses %s; pass only one of them with --filename", name)
	}
}

// ExcludeReported drops errors in fields of the class that could not be fully
// parsed: the missing parts have been reported.
func ExcludeReported(errs field.ErrorList, reported []Finding) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(reported, func(f Finding) bool { return f.Field != "" && topLevelField(f.Field) == topLevelField(err.Field) })
	})
}

func topLevelField(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}

	return path
}

// Warnings returns the warnings about a class whose spec has no errors.
func (c Class) Warnings(spec *apiv1alpha1.ProviderSpec) []validation.Warning {
	return slices.Concat(machineclass.Warnings(c.MachineClass), machineclass.NodeTemplateWarnings(c.MachineClass, spec), validation.Warnings(spec), localURLWarnings(spec))
}

// Class is a MachineClass of a file.
type Class struct {
	*v1alpha1.MachineClass

	// report contains the errors in its text and its fields, except those in the providerSpec.
	Report Report
}

func readClass(d document, is metav1.TypeMeta) Class {
	object := &v1alpha1.MachineClass{}
	report := decode(d, is, object, &object.ObjectMeta)

	return Class{MachineClass: object, Report: report.Sorted()}
}

// decode reads an object of machine-controller-manager's API, whose metadata are given, too, and reports the errors of
// the API server.
func decode(d document, is metav1.TypeMeta, object any, metadata *metav1.ObjectMeta) Report {
	errs := append(apiv1alpha1.DecodeStrict(d.raw, nil, object), apiVersionErrors(is)...)

	report := Report{Name: metadata.Name, Namespace: metadata.Namespace, File: d.file, Line: d.line, Errors: []Finding{}, Warnings: []Finding{}, lines: d.lines}
	for _, text := range append(d.duplicates, tooLarge(d.raw)...) {
		report.Fail("", text)
	}

	report.AddErrors(errs)
	report.AddErrors(ExcludeReported(metadataErrors(is.Kind, metadata), report.Errors))

	return report
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

// noUID is a UID that no Machine has.
const noUID = "00000000-0000-0000-0000-000000000000"

// Machine decodes a Machine of the class as the driver would. The error lists the errors of the
// class.
func (c Class) Machine(name string, labels map[string]string, data map[string][]byte, allowed validation.Options) (*spi.CreateMachineInput, error) {
	if len(c.Report.Errors) > 0 {
		texts := make([]string, len(c.Report.Errors))
		for i, f := range c.Report.Errors {
			texts[i] = f.String()
		}

		return nil, errors.New(strings.Join(texts, "; "))
	}

	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: noUID, Labels: labels}}

	return machineclass.DecodeCreateMachine(machine, c.MachineClass, &corev1.Secret{Data: data}, allowed)
}
