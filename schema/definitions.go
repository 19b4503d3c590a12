// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/crd"
)

// schema is a JSON Schema.
type schema = map[string]any

// own is the prefix of this project's packages.
const own = "github.com/gardener/machine-controller-manager-provider-kubevirt/"

const quantityType = "k8s.io.apimachinery.pkg.api.resource.Quantity"

// jsonTypes are the JSON types of Go types that decode from several, unlike in a structural schema.
var jsonTypes = map[string][]string{
	quantityType:                         {"number", "string"},
	"kubevirt.io.api.core.v1.CPUFeature": {"object", "string"}, // The predecessor has names.
}

// definitions converts the schemas of a parser, which describe CustomResourceDefinitions.
type definitions struct {
	parser *crd.Parser
	// schemas are the definitions, by nameOf.
	schemas map[string]schema
	err     error
}

func nameOf(t crd.TypeIdent) string {
	return strings.ReplaceAll(t.Package.PkgPath, "/", ".") + "." + t.Name
}

// define adds the definition of a type, and of those that it refers to.
func (d *definitions) define(t crd.TypeIdent) {
	name := nameOf(t)
	if _, exists := d.schemas[name]; !exists {
		d.schemas[name] = nil // A type may contain itself.
		d.schemas[name] = d.converted(t)
	}
}

// converted returns the converted schema of a type.
func (d *definitions) converted(t crd.TypeIdent) schema {
	d.parser.NeedSchemaFor(t)

	s := schema{}

	raw, err := json.Marshal(d.parser.Schemata[t])
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}

	if err != nil {
		d.err = fmt.Errorf("convert %s: %w", nameOf(t), err)
	}

	if !strings.HasPrefix(t.Package.PkgPath, own) {
		delete(s, "required") // The driver may set the field.
	}

	var embedded []any
	if s["type"] == "object" {
		embedded, _ = s["allOf"].([]any)
		delete(s, "allOf")
	}

	d.convert(t, s)
	d.constrain(t, s)

	if several, ok := jsonTypes[nameOf(t)]; ok {
		s["type"] = several
		delete(s, "anyOf")
	}

	if pattern, ok := s["pattern"].(string); ok && nameOf(t) == quantityType {
		s["pattern"] = strings.Replace(pattern, `(\+|-)?`, `\+?`, 1) // The first one is the sign. No size is negative.
		s["minimum"] = 0
	}

	for _, item := range embedded {
		d.embed(s, d.resolve(t, item.(schema)["$ref"].(string)))
	}

	return s
}

// constrain adds what the decoder and the validation require of the fields of a struct. A field that is not
// required may be null, which unsets it.
func (d *definitions) constrain(t crd.TypeIdent, s schema) {
	properties, _ := s["properties"].(schema)
	required, _ := s["required"].([]any)

	for name, property := range properties {
		property := property.(schema)

		switch {
		case !slices.Contains(required, any(name)):
			allowNull(property)
		case property["type"] == "string":
			property["minLength"] = 1
		}
	}

	for _, field := range fieldsOf(d.parser, t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if property, ok := properties[name].(schema); ok && unsigned.MatchString(types.ExprString(field.RawField.Type)) {
			property["minimum"] = 0
		}
	}
}

// unsigned matches Go's types of integers that cannot be negative, and pointers to them.
var unsigned = regexp.MustCompile(`^\*?uint\d*$`)

// allowNull adds null to the values of a schema.
func allowNull(s schema) {
	null := schema{"type": "null"}

	if kind, ok := s["type"].(string); ok {
		s["type"] = []any{kind, "null"}
	}

	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}

	if references, ok := s["allOf"].([]any); ok {
		delete(s, "allOf")
		s["anyOf"] = append(references, null)
	} else if alternatives, ok := s["anyOf"].([]any); ok {
		s["anyOf"] = append(alternatives, null)
	}
}

// embed adds the fields of an embedded struct.
func (d *definitions) embed(s schema, embedded crd.TypeIdent) {
	other := d.converted(embedded)
	maps.Copy(objectOf(s, "properties"), objectOf(other, "properties"))

	if required, ok := other["required"].([]any); ok {
		existing, _ := s["required"].([]any)
		s["required"] = append(existing, required...)
	}
}

// resolve returns the type of a reference in the schema of t:
// #/definitions/Name, or #/definitions/path~1of~1package~0Name.
func (d *definitions) resolve(t crd.TypeIdent, reference string) crd.TypeIdent {
	name := strings.TrimPrefix(reference, "#/definitions/")

	path, external, ok := strings.Cut(name, "~0")
	if !ok {
		return crd.TypeIdent{Package: t.Package, Name: name}
	}

	return crd.TypeIdent{Package: t.Package.Imports()[strings.ReplaceAll(path, "~1", "/")], Name: external}
}

// convert converts a schema within that of type t.
func (d *definitions) convert(t crd.TypeIdent, s schema) {
	switch description, _ := s["description"].(string); {
	case !strings.HasPrefix(t.Package.PkgPath, own):
	case s["enum"] != nil:
		s["enum"] = append(s["enum"].([]any), "") // Like a field that is not set.
	case strings.Contains(description, " is not supported."):
		// The schema has the field only for the description, which names the field to use instead.
		clear(s)
		s["description"] = description
		s["not"] = schema{}
	case strings.Contains(description, "Deprecated."):
		s["deprecationMessage"] = description // Not part of JSON Schema, but editors show it.
	}

	// Unknown fields are errors, as they are for the decoders.
	if s["type"] == "object" && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
		s["additionalProperties"] = false
	}

	maps.DeleteFunc(s, func(key string, _ any) bool { return strings.HasPrefix(key, "x-kubernetes-") })

	properties, _ := s["properties"].(schema)
	for _, property := range properties {
		d.convert(t, property.(schema))
	}

	for _, key := range []string{"items", "additionalProperties"} {
		if nested, ok := s[key].(schema); ok {
			d.convert(t, nested)
		}
	}

	d.refer(t, s)
}

// refer replaces the reference in a schema, if there is one. Draft 7 ignores everything beside a
// reference, hence allOf.
func (d *definitions) refer(t crd.TypeIdent, s schema) {
	references, _ := s["allOf"].([]any) // controller-gen adds it for a reference with a marker.
	if reference, ok := s["$ref"]; ok {
		references = append(references, schema{"$ref": reference})
	}

	for _, item := range references {
		if reference, ok := item.(schema)["$ref"].(string); ok {
			to := d.resolve(t, reference)
			d.define(to)
			item.(schema)["$ref"] = "#/definitions/" + nameOf(to)
		}
	}

	delete(s, "$ref")
	if references != nil {
		s["allOf"] = references
	}
}

// objectOf returns an object in a schema, which it adds if there is none.
func objectOf(s schema, key string) schema {
	object, ok := s[key].(schema)
	if !ok {
		object = schema{}
		s[key] = object
	}

	return object
}
