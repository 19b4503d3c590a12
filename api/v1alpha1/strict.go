// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// pruner compares JSON with a Go type. It reports every unknown field and every value of a wrong
// type, with its path, and removes it, so that the other fields can be decoded and validated.
// Existing strict decoders stop at the first wrong type, do not report the path of an invalid
// quantity, and accept unknown fields of types that decode themselves.
type pruner struct {
	errs field.ErrorList
}

// MaxErrors is the maximum number of errors of a spec. A file of another kind may have an error in
// every line.
const MaxErrors = 100

func (p *pruner) report(err *field.Error) {
	if len(p.errs) < MaxErrors {
		p.errs = append(p.errs, err)
	}
}

// prune returns the value without the parts that do not match the type; nil if nothing is left.
func (p *pruner) prune(path *field.Path, value any, t reflect.Type) any {
	if value == nil {
		return nil
	}

	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch {
	case opaque(t):
		return p.leaf(path, value, t)
	case t.Kind() == reflect.Struct:
		return p.object(path, value, t)
	case t.Kind() == reflect.Map:
		return p.dictionary(path, value, t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return p.list(path, value, t)
	default:
		return p.leaf(path, value, t)
	}
}

func (p *pruner) object(path *field.Path, value any, t reflect.Type) any {
	// The user guide of the predecessor's extension lists CPU features by their names.
	if name, ok := value.(string); ok && t == featureType {
		value = map[string]any{"name": name}
	}

	object, ok := value.(map[string]any)
	if !ok {
		return p.wrongType(path, t)
	}

	known := fieldsOf(t)
	pruned := make(map[string]any, len(object))

	for _, key := range slices.Sorted(maps.Keys(object)) {
		child := path.Child(key)

		if fieldType, ok := known[key]; ok {
			keep(pruned, key, p.prune(child, object[key], fieldType))
		} else {
			p.unknown(path, key, object, known, pruned)
		}

		if len(p.errs) >= MaxErrors {
			break
		}
	}

	return pruned
}

func (p *pruner) dictionary(path *field.Path, value any, t reflect.Type) any {
	object, ok := value.(map[string]any)
	if !ok {
		return p.wrongType(path, t)
	}

	pruned := make(map[string]any, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if object[key] == nil { // Unlike a field, an entry of a map cannot be unset.
			p.wrongType(path.Key(key), t.Elem())

			continue
		}

		keep(pruned, key, p.prune(path.Key(key), object[key], t.Elem()))
	}

	return pruned
}

func (p *pruner) list(path *field.Path, value any, t reflect.Type) any {
	list, ok := value.([]any)
	if !ok {
		return p.wrongType(path, t)
	}

	pruned := make([]any, len(list)) // Entries keep their index for later errors.
	for i, entry := range list {
		pruned[i] = p.prune(path.Index(i), entry, t.Elem())
	}

	return pruned
}

// leaf lets the type itself decode a value.
func (p *pruner) leaf(path *field.Path, value any, t reflect.Type) any {
	// The type would trim spaces.
	if text := fmt.Sprint(value); t == quantityType && (quantity.Excessive(text) || strings.TrimSpace(text) != text) {
		return p.wrongType(path, t)
	}

	raw, err := json.Marshal(value)
	if err != nil || json.Unmarshal(raw, reflect.New(t).Interface()) != nil {
		return p.wrongType(path, t)
	}

	return value
}

// wrongType does not quote the value, which may be a misplaced secret.
func (p *pruner) wrongType(path *field.Path, t reflect.Type) any {
	p.report(field.TypeInvalid(path, field.OmitValueType{}, "must be "+describe(t)))

	return nil
}

func keep(object map[string]any, key string, value any) {
	if value != nil {
		object[key] = value
	}
}

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	templateType    = reflect.TypeFor[VirtualMachineTemplate]()
	featureType     = reflect.TypeFor[kubevirtv1.CPUFeature]()
)

// opaque reports whether a type decodes itself. KubeVirt's types that do so, and a template, are
// ordinary objects: they only trim addresses, or keep the JSON.
func opaque(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(unmarshalerType) && !strings.HasPrefix(t.PkgPath(), "kubevirt.io/") && t != templateType
}

// fieldsOf returns a struct's fields by their names in JSON, including those of embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	fields := map[string]reflect.Type{}

	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")

		switch {
		case f.Anonymous && name == "":
			maps.Copy(fields, fieldsOf(f.Type))
		case f.IsExported() && name != "-" && name != "":
			fields[name] = f.Type
		}
	}

	return fields
}

// unknown reports an unknown field. If its name resembles that of a known field, the value is used
// for that field, so that it is not reported as missing.
func (p *pruner) unknown(path *field.Path, key string, object map[string]any, known map[string]reflect.Type, pruned map[string]any) {
	names := slices.Sorted(maps.Keys(known))

	const few = 8

	switch meant := Closest(key, names); {
	case meant != "":
		p.report(field.Forbidden(path.Child(key), "unknown field; did you mean "+strconv.Quote(meant)+"?"))

		if _, given := object[meant]; !given {
			keep(pruned, meant, p.prune(path.Child(meant), object[key], known[meant]))
		}
	case len(names) > 0 && len(names) <= few:
		p.report(field.Forbidden(path.Child(key), "unknown field; the fields are "+strings.Join(names, ", ")))
	default:
		p.report(field.Forbidden(path.Child(key), "unknown field; remove it, or look up its name in the API reference"))
	}
}

// Closest returns the name that is most similar to the given one. It differs by at most two
// letters, ignoring case; it is empty if there is none.
func Closest(name string, names []string) string {
	closest := ""
	least := 3

	for _, candidate := range names {
		if difference := len(name) - len(candidate); difference >= least || -difference >= least {
			continue
		}

		if distance := levenshtein.Distance(strings.ToLower(name), strings.ToLower(candidate), nil); distance < least {
			closest = candidate
			least = distance
		}
	}

	return closest
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string; in YAML, quote numbers, true and false"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "an object"
	case reflect.Struct:
		switch t {
		case quantityType:
			return `a quantity, for example "8Gi"`
		case reflect.TypeFor[intstr.IntOrString]():
			return "an integer or a string"
		case reflect.TypeFor[kubevirtv1.Memory]():
			return "an object; write memory: {guest: 4Gi}"
		case reflect.TypeFor[kubevirtv1.CPU]():
			return "an object; write cpu: {cores: 4}"
		}

		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a non-negative integer"
	default:
		return "an integer"
	}
}
