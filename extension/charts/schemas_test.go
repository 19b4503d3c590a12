// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestSchemas_Values requires the schema of each chart to accept its defaults and the values of the tests, and to know exactly the values
// that the file values.yaml has.
func TestSchemas_Values(t *testing.T) {
	t.Parallel()

	// Values without a default: Helm's, and an optional one.
	optional := map[string]bool{"global": true, "imageVectorOverwrite": true}

	for folder, prefix := range map[string]string{
		charts.ExtensionPath: "extension", charts.AdmissionRuntimePath: "admission-runtime", charts.AdmissionApplicationPath: "admission-application",
		driverChart: "none",
	} {
		schema, err := os.ReadFile(filepath.Clean(folder + "/values.schema.json"))
		require.NoError(t, err)

		defaults := valuesIn(t, folder+"/values.yaml")
		require.NoError(t, util.ValidateAgainstSingleSchema(defaults, schema), folder)

		files, err := filepath.Glob("testdata/" + prefix + "*.yaml")
		require.NoError(t, err)

		for _, file := range files {
			require.NoError(t, util.ValidateAgainstSingleSchema(merged(defaults, valuesIn(t, file)), schema), file)
		}

		defaults["typo"] = true
		require.ErrorContains(t, util.ValidateAgainstSingleSchema(defaults, schema), "typo", folder)
		delete(defaults, "typo")

		var described map[string]any
		require.NoError(t, json.Unmarshal(schema, &described))
		requireDescribed(t, described, defaults, optional, folder)
	}
}

// requireDescribed requires the properties of a schema to be the keys of an object.
func requireDescribed(t *testing.T, schema, values map[string]any, optional map[string]bool, path string) {
	t.Helper()

	properties, closed := schema["properties"].(map[string]any)
	if !closed {
		return
	}

	require.Equal(t, false, schema["additionalProperties"], path)

	for name, property := range properties {
		if value, known := values[name]; known {
			if fields, ok := value.(map[string]any); ok && len(fields) > 0 {
				requireDescribed(t, property.(map[string]any), fields, optional, path+"."+name)
			}
		} else if len(values) > 0 {
			require.True(t, optional[name], "%s.%s is described, and has no default", path, name)
		}
	}
}

// TestSchemas_Refuse has values that would only fail when the pods start.
func TestSchemas_Refuse(t *testing.T) {
	t.Parallel()

	schema, err := charts.Installation.ReadFile(charts.ExtensionPath + "/values.schema.json")
	require.NoError(t, err)

	defaults := valuesIn(t, charts.ExtensionPath+"/values.yaml")

	for name, values := range map[string]map[string]any{
		"Level":  {"logLevel": "trace"},
		"Port":   {"metricsPort": 70000},
		"Number": {"controllers": map[string]any{"worker": map[string]any{"concurrentSyncs": "ten"}}},
		"Nested": {"controllers": map[string]any{"nonsense": map[string]any{"concurrentSyncs": 5}}},
		"Image":  {"image": map[string]any{"tag": ""}},
	} {
		require.Error(t, util.ValidateAgainstSingleSchema(merged(defaults, values), schema), name)
	}
}

func valuesIn(t *testing.T, file string) map[string]any {
	t.Helper()

	raw, err := os.ReadFile(filepath.Clean(file))
	require.NoError(t, err)

	values := map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &values))

	return values
}

// merged returns values over defaults.
func merged(defaults, values map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range defaults {
		all[key] = value
	}

	for key, value := range values {
		below, isObject := all[key].(map[string]any)

		if above, ok := value.(map[string]any); ok && isObject {
			all[key] = merged(below, above)
		} else {
			all[key] = value
		}
	}

	return all
}
