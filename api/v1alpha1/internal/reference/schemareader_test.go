package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// schemaReader validates values by the shipped schema. It supports the keywords that the schema
// uses, and fails on others.
type schemaReader struct {
	schema map[string]any
}

func readSchema(t *testing.T) schemaReader {
	t.Helper()

	return schemaReader{schema: object(reread(t, readShipped(t, schemaFile)))}
}

// of returns the schema of one of the ProviderSpec's own structs.
func (r schemaReader) of(name string) map[string]any {
	if r.schema["title"] == name {
		return r.schema
	}

	return object(object(r.schema["definitions"])[name])
}

func (r schemaReader) judge(t *testing.T, text string) []string {
	t.Helper()

	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	require.NoError(t, err)

	return r.faults(t, r.schema, reread(t, raw), "")
}

// place is a value, its path, and its schema.
type place struct {
	schema map[string]any
	value  any
	path   string
}

// faults returns the paths at which a value does not match a schema.
func (r schemaReader) faults(t *testing.T, schema map[string]any, value any, path string) []string {
	t.Helper()

	rules := map[string]func(t *testing.T, at place, rule any) []string{
		"$ref": func(t *testing.T, at place, rule any) []string {
			t.Helper()

			return r.faults(t, r.resolve(t, rule), at.value, at.path)
		},
		"allOf":                r.allOfFaults,
		"items":                r.itemFaults,
		"additionalProperties": r.fieldFaults,
		"not":                  notFaults,
		"type":                 typeFaults,
		"enum":                 enumFaults,
		"minimum":              minimumFaults,
		"required":             requiredFaults,
	}

	var found []string

	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if rule, ok := rules[keyword]; ok {
			found = append(found, rule(t, place{schema, value, path}, schema[keyword])...)
		} else {
			require.Contains(t, []string{
				"$schema", "$id", "title", "description", "deprecationMessage", "format", "definitions", "properties",
			}, keyword, "the test does not know this keyword")
		}
	}

	return found
}

func (r schemaReader) allOfFaults(t *testing.T, at place, rule any) []string {
	t.Helper()

	var found []string
	for _, part := range list(rule) {
		found = append(found, r.faults(t, object(part), at.value, at.path)...)
	}

	return found
}

func (r schemaReader) itemFaults(t *testing.T, at place, rule any) []string {
	t.Helper()

	var found []string
	for i, entry := range list(at.value) {
		found = append(found, r.faults(t, object(rule), entry, fmt.Sprintf("%s[%d]", at.path, i))...)
	}

	return found
}

func (r schemaReader) fieldFaults(t *testing.T, at place, others any) []string {
	t.Helper()

	var found []string

	value := object(at.value)
	for _, name := range slices.Sorted(maps.Keys(value)) {
		child := strings.TrimPrefix(at.path+"."+name, ".")

		if property, known := object(at.schema["properties"])[name]; known {
			found = append(found, r.faults(t, object(property), value[name], child)...)
		} else if others == false {
			found = append(found, child)
		} else {
			found = append(found, r.faults(t, object(others), value[name], child)...)
		}
	}

	return found
}

func notFaults(t *testing.T, at place, rule any) []string {
	t.Helper()
	require.Empty(t, rule)

	return []string{at.path}
}

func typeFaults(_ *testing.T, at place, rule any) []string {
	if slices.ContainsFunc(orList(rule), func(name any) bool { return isType(at.value, name) }) {
		return nil
	}

	return []string{at.path}
}

func enumFaults(_ *testing.T, at place, rule any) []string {
	if slices.Contains(list(rule), at.value) {
		return nil
	}

	return []string{at.path}
}

func minimumFaults(t *testing.T, at place, rule any) []string {
	t.Helper()
	require.Zero(t, rule)

	if number, ok := at.value.(float64); ok && number < 0 {
		return []string{at.path}
	}

	return nil
}

func requiredFaults(_ *testing.T, at place, rule any) []string {
	var found []string

	for _, name := range list(rule) {
		if _, given := object(at.value)[fmt.Sprint(name)]; !given {
			found = append(found, at.path)
		}
	}

	return found
}

// sample returns a value with all fields of a schema that are not refused.
func (r schemaReader) sample(t *testing.T, schema map[string]any) any {
	t.Helper()

	if ref, ok := schema["$ref"]; ok {
		return r.sample(t, r.resolve(t, ref))
	}

	if parts := list(schema["allOf"]); len(parts) > 0 {
		return r.sample(t, object(parts[0]))
	}

	if values := list(schema["enum"]); len(values) > 0 {
		return values[0]
	}

	switch orList(schema["type"])[0] {
	case "object":
		return r.sampleObject(t, schema)
	case "array":
		return []any{r.sample(t, object(schema["items"]))}
	case "boolean":
		return true
	case "integer":
		return 1
	default:
		if schema["format"] == "date-time" {
			return "2026-01-01T00:00:00Z"
		}

		return "1m" // It is a quantity and a duration too.
	}
}

func (r schemaReader) sampleObject(t *testing.T, schema map[string]any) map[string]any {
	t.Helper()

	sample := map[string]any{}

	for name, property := range object(schema["properties"]) {
		if _, refused := object(property)["not"]; !refused {
			sample[name] = r.sample(t, object(property))
		}
	}

	if others := object(schema["additionalProperties"]); others != nil {
		for _, name := range []string{"mcm.gardener.cloud/cluster", "mcm.gardener.cloud/role"} {
			sample[name] = r.sample(t, others)
		}
	}

	return sample
}

func (r schemaReader) resolve(t *testing.T, ref any) map[string]any {
	t.Helper()

	name, ok := strings.CutPrefix(fmt.Sprint(ref), "#/definitions/")
	require.True(t, ok)

	definition := object(object(r.schema["definitions"])[name])
	require.NotEmpty(t, definition, name)

	return definition
}

func isType(value, name any) bool {
	switch value := value.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || (name == "integer" && value == float64(int64(value)))
	case int64:
		return name == "number" || name == "integer"
	default:
		return false
	}
}

func reread(t *testing.T, raw []byte) any {
	t.Helper()

	var value any

	require.NoError(t, json.Unmarshal(raw, &value))

	return value
}

func object(value any) map[string]any {
	o, _ := value.(map[string]any)

	return o
}

func list(value any) []any {
	l, _ := value.([]any)

	return l
}

func orList(value any) []any {
	if l := list(value); l != nil {
		return l
	}

	return []any{value}
}
