// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Decode reads a providerConfig into a pointer to its type, strictly. It returns all errors at
// once, with their paths below path. A missing providerConfig leaves the type as it is.
func Decode(raw *runtime.RawExtension, path *field.Path, into runtime.Object) field.ErrorList {
	if raw == nil || len(raw.Raw) == 0 {
		return nil
	}

	errs := providerspec.DecodeStrict(raw.Raw, path, into)
	if len(errs) > 0 && errs[0].Field == path.String() {
		return errs // There is no object.
	}

	actual := into.GetObjectKind().GroupVersionKind()
	kind := reflect.TypeOf(into).Elem().Name()
	if actual.GroupVersion() != SchemeGroupVersion {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), actual.GroupVersion().String(), []string{SchemeGroupVersion.String()}))
	}

	if actual.Kind != kind {
		errs = append(errs, field.NotSupported(path.Child("kind"), actual.Kind, []string{kind}))
	}

	return errs
}
