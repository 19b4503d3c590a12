package main

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// machineClass is a MachineClass of a file.
type machineClass struct {
	*v1alpha1.MachineClass

	file string
	line int
	// duplicates are keys that its YAML has twice.
	duplicates []string
	// faults are what is wrong with it as a manifest. The providerSpec is not looked into.
	faults field.ErrorList
}

func readClass(d document, is metav1.TypeMeta) machineClass {
	object := &v1alpha1.MachineClass{}
	faults := apiv1alpha1.DecodeStrict(d.raw, nil, object)

	if version := v1alpha1.SchemeGroupVersion.String(); is.APIVersion != version {
		faults = append(faults, field.NotSupported(field.NewPath("apiVersion"), is.APIVersion, []string{version}))
	}

	if object.Name == "" {
		missing := field.Required(field.NewPath("metadata", "name"), "name the MachineClass")
		faults = append(faults, news(field.ErrorList{missing}, faults)...)
	}

	return machineClass{MachineClass: object, file: d.file, line: d.line, duplicates: d.duplicates, faults: faults}
}

// sound says whether everything in it was read as it is meant.
func (c machineClass) sound() bool {
	return len(c.duplicates) == 0 && len(c.faults) == 0
}
