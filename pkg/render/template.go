// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// mergeTemplate returns the VirtualMachine with the template merged over it. Validation ensures
// that the template sets no field that the driver owns.
func mergeTemplate(vm *kubevirtv1.VirtualMachine, template *v1alpha1.VirtualMachineTemplate) (*kubevirtv1.VirtualMachine, error) {
	if template == nil {
		return vm, nil
	}

	under, err := asObject(vm)
	if err != nil {
		return nil, fmt.Errorf("read the VirtualMachine: %w", err)
	}

	over, err := given(template)
	if err != nil {
		return nil, fmt.Errorf("read virtualMachineTemplate: %w", err)
	}

	raw, err := json.Marshal(mergeObjects(under, over))
	if err != nil {
		return nil, fmt.Errorf("merge virtualMachineTemplate: %w", err)
	}

	merged := &kubevirtv1.VirtualMachine{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, merged); err != nil {
		return nil, fmt.Errorf("merge virtualMachineTemplate: %w", err)
	}

	return merged, nil
}

// given returns the template as an object, including its zero and empty values, since these also
// replace values.
func given(template *v1alpha1.VirtualMachineTemplate) (map[string]any, error) {
	raw, err := template.Given()
	if err != nil {
		return nil, err
	}

	var object map[string]any

	return object, kjson.UnmarshalCaseSensitivePreserveInts(raw, &object)
}

func asObject(value any) (map[string]any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}

	var object map[string]any

	return object, kjson.UnmarshalCaseSensitivePreserveInts(raw, &object)
}

// merge merges over into under: objects merge, lists whose entries have names merge by name, and
// every other value of over replaces the one of under. A null in over is ignored.
func merge(under, over any) any {
	switch over := over.(type) {
	case nil:
		return under
	case map[string]any:
		if under, ok := under.(map[string]any); ok {
			return mergeObjects(under, over)
		}
	case []any:
		if under, ok := under.([]any); ok && named(under) && named(over) {
			return mergeByName(under, over)
		}
	}

	return over
}

func mergeObjects(under, over map[string]any) map[string]any {
	for key, value := range over {
		if merged := merge(under[key], value); merged != nil {
			under[key] = merged
		}
	}

	return under
}

// mergeByName keeps the order of under, and appends new entries.
func mergeByName(under, over []any) []any {
	places := make(map[string]int, len(under))
	for i, entry := range under {
		places[nameOf(entry)] = i
	}

	for _, entry := range over {
		if i, known := places[nameOf(entry)]; known {
			under[i] = merge(under[i], entry)
		} else {
			places[nameOf(entry)] = len(under)
			under = append(under, entry)
		}
	}

	return under
}

// named reports whether all entries of a list have names.
// An empty list does not count: it replaces.
func named(list []any) bool {
	for _, entry := range list {
		if nameOf(entry) == "" {
			return false
		}
	}

	return len(list) > 0
}

func nameOf(entry any) string {
	object, _ := entry.(map[string]any)
	name, _ := object["name"].(string)

	return name
}
