package preflight

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// difference is a field that the API server returned with another value than was sent.
type difference struct {
	path string
	// dropped reports whether the field is missing from the response.
	dropped bool
}

// differences returns the fields that an API server has dropped or changed, in a stable order.
// Fields added by defaulting and by webhooks are not differences. Both objects are of the same Go
// type, so fields that the type lacks were never sent. Only the named parts are compared.
func differences(sent, response any, parts ...[]string) ([]difference, error) {
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sent)
	if err != nil {
		return nil, fmt.Errorf("convert the sent object: %w", err)
	}

	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(response)
	if err != nil {
		return nil, fmt.Errorf("convert the response: %w", err)
	}

	var list []difference

	for _, part := range parts {
		path, of, have := "", any(a), any(b)

		for _, step := range part {
			path = join(path, step)
			of, have = field(of, step), field(have, step)
		}

		list = append(list, compare(path, of, have)...)
	}

	return list, nil
}

func field(of any, name string) any {
	fields, ok := of.(map[string]any)
	if !ok {
		return nil
	}

	return fields[name]
}

func join(path, step string) string {
	if path == "" {
		return step
	}

	return path + "." + step
}

func compare(path string, sent, have any) []difference {
	if isZero(sent) && have == nil {
		return nil // Unset, or the zero value that Go marshals for an unset field.
	}

	if have == nil {
		return []difference{{path: path, dropped: true}}
	}

	switch sent := sent.(type) {
	case map[string]any:
		return compareFields(path, sent, have)
	case []any:
		return compareLists(path, sent, have)
	case nil:
		return nil
	default:
		if same(sent, have) {
			return nil
		}

		return []difference{{path: path, dropped: isZero(have)}}
	}
}

// inferred is the field of an instancetype or preference matcher that KubeVirt's webhook replaces
// with the name that it has found (pkg/instancetype/infer).
const inferred = "inferFromVolume"

func compareFields(path string, sent map[string]any, have any) []difference {
	fields, ok := have.(map[string]any)
	if !ok {
		return []difference{{path: path}}
	}

	var list []difference

	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if name == inferred && nameOf(fields) != nil {
			continue
		}

		other, there := fields[name]
		if there && other == nil {
			there = false
		}

		if empty, isMap := sent[name].(map[string]any); isMap && len(empty) == 0 && !there {
			// An empty object can have a meaning, such as bridge: {}.
			list = append(list, difference{path: join(path, name), dropped: true})

			continue
		}

		list = append(list, compare(join(path, name), sent[name], other)...)
	}

	return list
}

// compareLists matches the entries of a list by their names. Entries without a name match at any
// index, since they may have been reordered.
func compareLists(path string, sent []any, have any) []difference {
	entries, ok := have.([]any)
	if !ok {
		return []difference{{path: path}}
	}

	var list []difference

	for i, entry := range sent {
		at := fmt.Sprintf("%s[%d]", path, i)

		if other := counterpart(at, entry, i, entries); other != nil {
			list = append(list, compare(at, entry, other)...)
		} else {
			list = append(list, difference{path: at, dropped: true})
		}
	}

	return list
}

// counterpart returns the entry of the same name. For an entry without a name it returns an entry
// with all the fields that were sent, or else the entry at the same index.
func counterpart(at string, entry any, index int, entries []any) any {
	name := nameOf(entry)

	for _, other := range entries {
		if name != nil && nameOf(other) == name || name == nil && len(compare(at, entry, other)) == 0 {
			return other
		}
	}

	if name == nil && index < len(entries) {
		return entries[index]
	}

	return nil
}

// nameOf returns the name that identifies an entry of a list.
// DataVolume templates have it in their metadata.
func nameOf(entry any) any {
	if name := field(entry, "name"); name != nil {
		return name
	}

	return field(field(entry, "metadata"), "name")
}

// same reports whether two values are equal; a quantity can be written in several forms.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b) {
		return true
	}

	first, ok := quantityOf(a)
	if !ok {
		return false
	}

	second, ok := quantityOf(b)

	return ok && first.Cmp(second) == 0
}

// quantityOf parses a quantity. Labels, which pkg/providerapi treats as text, may look like a
// quantity that takes hours to parse.
func quantityOf(value any) (resource.Quantity, bool) {
	text := fmt.Sprint(value)
	if quantity.Excessive(text) {
		return resource.Quantity{}, false
	}

	parsed, err := resource.ParseQuantity(text)

	return parsed, err == nil
}

func isZero(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return false
	case []any:
		return len(value) == 0
	default:
		return reflect.ValueOf(value).IsZero()
	}
}
