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
	// defects are what is wrong with its text as a whole: keys that its YAML has twice, too many bytes.
	defects []string
	// faults are what is wrong with it as a manifest. The providerSpec is not looked into.
	faults field.ErrorList
}

func readClass(d document, is metav1.TypeMeta) machineClass {
	object := &v1alpha1.MachineClass{}
	faults := apiv1alpha1.DecodeStrict(d.raw, nil, object)

	if version := v1alpha1.SchemeGroupVersion.String(); is.APIVersion != version {
		faults = append(faults, field.NotSupported(field.NewPath("apiVersion"), is.APIVersion, []string{version}))
	}

	faults = append(faults, news(metadataErrors(object.ObjectMeta), faults)...)

	return machineClass{MachineClass: object, file: d.file, line: d.line, defects: append(d.duplicates, tooLarge(d.raw)...), faults: faults}
}

// metadataErrors returns what the API server does not accept as the name and namespace of a custom resource.
func metadataErrors(meta metav1.ObjectMeta) field.ErrorList {
	var (
		errs field.ErrorList
		path = field.NewPath("metadata")
	)

	if meta.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the MachineClass"))
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

// tooLarge says that an object has more bytes than etcd accepts, as the API server stores it: without spaces between its fields.
func tooLarge(raw []byte) []string {
	if len(raw) <= maxRequest {
		return nil
	}

	var stored bytes.Buffer
	if err := json.Compact(&stored, raw); err != nil || stored.Len() <= maxRequest {
		return nil // That it is not JSON is an error of its own.
	}

	return []string{fmt.Sprintf("the object has %d bytes, and etcd accepts at most %d (1.5 MiB); shorten it", stored.Len(), maxRequest)}
}

// classNames are the names of MachineClasses in their namespaces, with the first class of each.
type classNames map[types.NamespacedName]machineClass

// add returns an error if there is a class of that name and namespace already.
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

// sound says whether everything in it was read as it is meant.
func (c machineClass) sound() bool {
	return len(c.defects) == 0 && len(c.faults) == 0
}
