// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The functions of this file return an error if a rule about one field is violated, and nothing
// otherwise, so that the rules of an object read as a table.

// require returns an error if a field is not set.
func require[T comparable](path *field.Path, value T, remedy string) field.ErrorList {
	var unset T
	if value != unset {
		return nil
	}

	return field.ErrorList{field.Required(path, remedy)}
}

// forbid returns an error if a field is set.
func forbid(path *field.Path, set bool, remedy string) field.ErrorList {
	if !set {
		return nil
	}

	return field.ErrorList{field.Forbidden(path, remedy)}
}

// refuse returns an error if a value is wrong.
func refuse(path *field.Path, wrong bool, value any, rule string) field.ErrorList {
	if !wrong {
		return nil
	}

	return field.ErrorList{field.Invalid(path, value, rule)}
}

// validateOneOf returns an error if a value is not supported.
func validateOneOf[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}

	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// validateSyntax returns an error with the messages of a check of apimachinery.
func validateSyntax[T any](path *field.Path, value T, check func(T) []string) field.ErrorList {
	if messages := check(value); len(messages) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(messages, "; "))}
	}

	return nil
}

// validateObjectName validates the name of an object that the machine needs. KubeVirt would wait forever
// for an object that cannot exist.
func validateObjectName(name string, path *field.Path) field.ErrorList {
	return append(require(path, name, "name an object of the provider cluster"), validateOptionalName(name, path)...)
}

// validateOptionalName is like validateObjectName, for an object that need not be named.
func validateOptionalName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}

	return validateSyntax(path, name, validation.IsDNS1123Subdomain)
}
