// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schema is a part of the JSON Schema of the ProviderSpec.
type schema struct {
	Ref                  string            `json:"$ref"`
	Description          string            `json:"description"`
	Type                 any               `json:"type"`
	Format               string            `json:"format"`
	Not                  *schema           `json:"not"`
	Enum                 []any             `json:"enum"`
	AllOf                []schema          `json:"allOf"`
	AnyOf                []schema          `json:"anyOf"`
	Items                *schema           `json:"items"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Definitions          map[string]schema `json:"definitions"`
}

func readSchema(t *testing.T) schema {
	t.Helper()

	raw, err := os.ReadFile("../../docs/schemas/providerspec_v1alpha1.json")
	require.NoError(t, err)

	var s schema

	require.NoError(t, json.Unmarshal(raw, &s))

	return s
}

// TestDecode_AcceptsSchema decodes a spec with all fields that an editor would propose.
func TestDecode_AcceptsSchema(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	raw, err := json.Marshal(root.sample(root.Definitions))
	require.NoError(t, err)

	_, errs := Decode(raw, field.NewPath("providerSpec"))
	require.Empty(t, errs)
	require.Greater(t, len(raw), 10_000)
}

func TestSchema_DescribesFields(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	root.Definitions["github.com.gardener."+Kind] = root
	fields := 0

	for name, definition := range root.Definitions {
		if !strings.HasPrefix(name, "github.com.gardener.") {
			continue
		}

		for property, s := range definition.Properties {
			require.NotEmpty(t, s.Description, "%s.%s has no comment", name, property)

			fields++
		}
	}

	require.Greater(t, fields, 60)
}

// sample returns a value with all fields of a schema that are not refused.
func (s schema) sample(definitions map[string]schema) any {
	switch {
	case s.Ref != "":
		return definitions[strings.TrimPrefix(s.Ref, "#/definitions/")].sample(definitions)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		return s.AllOf[0].sample(definitions)
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].sample(definitions)
	case s.Format == "date-time":
		return "2006-01-02T15:04:05Z"
	}

	kind := s.Type
	if several, ok := kind.([]any); ok {
		kind = several[0]
	}

	switch kind {
	case "object":
		return s.sampleObject(definitions)
	case "array":
		return []any{s.Items.sample(definitions)}
	case "string":
		return "1s" // Also a duration.
	case "boolean":
		return true
	default:
		return 1
	}
}

func (s schema) sampleObject(definitions map[string]schema) map[string]any {
	object := map[string]any{}

	for name, property := range s.Properties {
		if property.Not == nil {
			object[name] = property.sample(definitions)
		}
	}

	var values schema
	if json.Unmarshal(s.AdditionalProperties, &values) == nil {
		object[TagCluster] = values.sample(definitions)
	}

	return object
}
