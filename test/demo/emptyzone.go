// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// inZone renames a MachineClass and its MachineDeployment in a list, moves them to another
// zone, and sets one replica.
func inZone(list []byte, name, newName, zone string) ([]byte, error) {
	var found struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(list, &found); err != nil {
		return nil, fmt.Errorf("decode list: %w", err)
	}
	for _, item := range found.Items {
		delete(item, "status")
		item["metadata"] = map[string]any{"name": name}
		for _, field := range []string{"providerSpec", "nodeTemplate"} {
			if section, ok := item[field].(map[string]any); ok {
				section["zone"] = zone
			}
		}
		if spec, ok := item["spec"].(map[string]any); ok {
			spec["replicas"] = 1
		}
	}
	changed, err := json.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("encode list: %w", err)
	}
	return []byte(strings.ReplaceAll(string(changed), `"`+name+`"`, `"`+newName+`"`)), nil
}
