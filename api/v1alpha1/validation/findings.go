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

// oneOf returns an error if a value is not supported.
func oneOf[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}

	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// syntax returns an error with the messages of a check of apimachinery.
func syntax[T any](path *field.Path, value T, check func(T) []string) field.ErrorList {
	if messages := check(value); len(messages) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(messages, "; "))}
	}

	return nil
}

// objectName validates the name of an object that the machine needs. KubeVirt would wait forever
// for an object that cannot exist.
func objectName(name string, path *field.Path) field.ErrorList {
	return append(require(path, name, "name an object of the provider cluster"), optionalName(name, path)...)
}

// optionalName is like objectName, for an object that need not be named.
func optionalName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}

	return syntax(path, name, validation.IsDNS1123Subdomain)
}
