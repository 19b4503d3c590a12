// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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

// differences returns the fields of the spec, labels and annotations that an API server has dropped
// or changed, in a stable order. Fields added by defaulting and by webhooks are not differences.
// Both objects are of the same Go type, so fields that the type lacks were never sent.
func differences(sent, response any) ([]difference, error) {
	a, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sent)
	if err != nil {
		return nil, fmt.Errorf("convert the sent object: %w", err)
	}

	b, err := runtime.DefaultUnstructuredConverter.ToUnstructured(response)
	if err != nil {
		return nil, fmt.Errorf("convert the response: %w", err)
	}

	metadata, _ := a["metadata"].(map[string]any)

	return compareFields("", map[string]any{
		"spec": a["spec"], "metadata": map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]},
	}, b), nil
}

func compare(path string, sent, have any) []difference {
	if sent == nil || have == nil && isZero(sent) {
		return nil // Unset, or the zero value that Go marshals for an unset field.
	}

	switch sent := sent.(type) {
	case map[string]any:
		if fields, ok := have.(map[string]any); ok {
			return compareFields(path, sent, fields)
		}
	case []any:
		if entries, ok := have.([]any); ok {
			return compareLists(path, sent, entries)
		}
	default:
		if have != nil && same(sent, have) {
			return nil
		}
	}

	return []difference{{path: path, dropped: isZero(have)}}
}

// inferred is the field of an instancetype or preference matcher that KubeVirt's webhook replaces
// with the name that it has found (pkg/instancetype/infer).
const inferred = "inferFromVolume"

func compareFields(path string, sent, have map[string]any) []difference {
	var list []difference

	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if name == inferred && nameOf(have) != nil {
			continue
		}

		list = append(list, compare(strings.TrimPrefix(path+"."+name, "."), sent[name], have[name])...)
	}

	return list
}

func compareLists(path string, sent, have []any) []difference {
	var list []difference

	for i, entry := range sent {
		at := fmt.Sprintf("%s[%d]", path, i)

		if other := counterpart(entry, i, have); other != nil {
			list = append(list, compare(at, entry, other)...)
		} else {
			list = append(list, difference{path: at, dropped: true})
		}
	}

	return list
}

// counterpart returns the entry of the same name. For an entry without a name it returns an entry
// with all the fields that were sent, since webhooks may reorder a list, or else the entry at the
// same index; nil if there is none.
func counterpart(entry any, index int, entries []any) any {
	name := nameOf(entry)

	for _, other := range entries {
		if name != nil && nameOf(other) == name || name == nil && len(compare("", entry, other)) == 0 {
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
	fields, _ := entry.(map[string]any)
	if name := fields["name"]; name != nil {
		return name
	}

	metadata, _ := fields["metadata"].(map[string]any)

	return metadata["name"]
}

// same reports whether two values are equal; a quantity can be written in several forms. Labels,
// which pkg/providerapi treats as text, may look like a quantity that takes hours to parse.
func same(a, b any) bool {
	first := fmt.Sprint(a)
	second := fmt.Sprint(b)
	if first == second || quantity.Excessive(first) || quantity.Excessive(second) {
		return first == second
	}

	x, err := resource.ParseQuantity(first)
	y, also := resource.ParseQuantity(second)

	return err == nil && also == nil && x.Cmp(y) == 0
}

// isZero reports whether a value is unset. An empty object can have a meaning, such as bridge: {}.
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
