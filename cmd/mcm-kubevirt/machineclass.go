package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// machineClass is a MachineClass of a file.
type machineClass struct {
	*v1alpha1.MachineClass

	file string
	line int
	// textErrors are the errors in its text as a whole: duplicate keys in its YAML, excessive size.
	textErrors []string
	// fieldErrors are the errors in its fields, except those in the providerSpec.
	fieldErrors field.ErrorList
}

func readClass(d document, is metav1.TypeMeta) machineClass {
	object := &v1alpha1.MachineClass{}
	errs := apiv1alpha1.DecodeStrict(d.raw, nil, object)

	if version := v1alpha1.SchemeGroupVersion.String(); is.APIVersion != version {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), is.APIVersion, []string{version}))
	}

	errs = append(errs, excludeReported(metadataErrors(object.ObjectMeta), errs)...)

	return machineClass{MachineClass: object, file: d.file, line: d.line, textErrors: append(d.duplicates, tooLarge(d.raw)...), fieldErrors: errs}
}

// metadataErrors returns the errors of the API server for the
// name and namespace of a custom resource.
func metadataErrors(meta metav1.ObjectMeta) field.ErrorList {
	var (
		errs field.ErrorList
		path = field.NewPath("metadata")
	)

	if meta.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "set the name of the MachineClass"))
	} else {
		for _, msg := range apivalidation.NameIsDNSSubdomain(meta.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), meta.Name, msg))
		}
	}

	if meta.Namespace != "" {
		for _, msg := range apivalidation.ValidateNamespaceName(meta.Namespace, false) {
			errs = append(errs, field.Invalid(path.Child("namespace"), meta.Namespace, msg))
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

// classNames maps the names and namespaces of MachineClasses to the first class with each.
type classNames map[types.NamespacedName]machineClass

// add returns an error if there already is a class with that name and namespace.
func (n classNames) add(class machineClass) field.ErrorList {
	key := types.NamespacedName{Namespace: class.Namespace, Name: class.Name}

	first, twice := n[key]
	if !twice {
		n[key] = class
	}

	if !twice || class.Name == "" {
		return nil
	}

	err := field.Duplicate(field.NewPath("metadata", "name"), class.Name)
	err.Detail = fmt.Sprintf("MachineClass %s is also defined at %s:%d; rename or remove one of them",
		qualified(class.Namespace, class.Name), first.file, first.line)

	return field.ErrorList{err}
}

// parsed reports whether the class was parsed without errors.
func (c machineClass) parsed() bool {
	return len(c.textErrors) == 0 && len(c.fieldErrors) == 0
}
