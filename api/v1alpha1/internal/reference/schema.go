package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// jsonSchema is the part of JSON Schema that is used here. Draft 7 is the one that editors support
// best; it ignores everything beside a $ref, hence allOf.
type jsonSchema struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// DeprecationMessage is not part of JSON Schema; editors show it.
	DeprecationMessage string `json:"deprecationMessage,omitempty"`

	Ref                  string                 `json:"$ref,omitempty"`
	AllOf                []*jsonSchema          `json:"allOf,omitempty"`
	Not                  *jsonSchema            `json:"not,omitempty"`
	Type                 any                    `json:"type,omitempty"`
	Format               string                 `json:"format,omitempty"`
	Minimum              *int                   `json:"minimum,omitempty"`
	Enum                 []string               `json:"enum,omitempty"`
	Items                *jsonSchema            `json:"items,omitempty"`
	Required             []string               `json:"required,omitempty"`
	Properties           map[string]*jsonSchema `json:"properties,omitempty"`
	AdditionalProperties any                    `json:"additionalProperties,omitempty"`
	Definitions          map[string]*jsonSchema `json:"definitions,omitempty"`
}

// schema returns the JSON schema of the ProviderSpec.
func (d *describer) schema() ([]byte, error) {
	root := d.object(rootType)
	root.Schema = "http://json-schema.org/draft-07/schema#"
	root.ID = "https://raw.githubusercontent.com/gardener/machine-controller-manager-provider-kubevirt/main/" + schemaFile
	root.Title = rootType.Name()
	root.Definitions = d.definitions

	root.Properties["apiVersion"].Enum = []string{v1alpha1.APIVersion}
	root.Properties["kind"].Enum = []string{v1alpha1.Kind}
	root.Properties["tags"].Required = []string{v1alpha1.TagCluster, v1alpha1.TagRole}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	err := encoder.Encode(root)

	return out.Bytes(), err
}

// object returns the schema of a struct. Unknown fields are errors, as they are for the decoder.
func (d *describer) object(t reflect.Type) *jsonSchema {
	s := &jsonSchema{Type: "object", Description: d.comment(t, ""), Properties: map[string]*jsonSchema{}, AdditionalProperties: false}

	for _, f := range d.fieldsOf(t) {
		s.Properties[f.name] = d.property(f)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}

	return s
}

// property returns the schema of a field. A field that the driver always refuses is in the schema
// only for its description, which names the field to use instead.
func (d *describer) property(f specField) *jsonSchema {
	if f.own && strings.Contains(f.comment, " is not supported.") {
		return &jsonSchema{Description: f.comment, Not: &jsonSchema{}}
	}

	property := d.value(f.goType)
	if property.Ref != "" && f.comment != "" {
		property = &jsonSchema{AllOf: []*jsonSchema{property}}
	}

	property.Description = f.comment
	if f.own && strings.Contains(f.comment, "Deprecated.") {
		property.DeprecationMessage = f.comment
	}

	return property
}

// decodesItself reports whether a type has its own JSON. KubeVirt's types that decode themselves,
// and a template, are ordinary objects, as they are for the decoder.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && !strings.HasPrefix(t.PkgPath(), "kubevirt.io/") &&
		t != reflect.TypeFor[v1alpha1.VirtualMachineTemplate]()
}

// value returns the schema of a field's value.
func (d *describer) value(t reflect.Type) *jsonSchema {
	t = deref(t)
	if scalar, ok := scalars[t]; ok {
		return &scalar.schema
	}

	if decodesItself(t) {
		d.errs = append(d.errs, fmt.Errorf("type %s decodes itself: add it to the scalars in types.go", t))
	}

	s := &jsonSchema{Type: jsonType(t.Kind()), Enum: enums[t]}

	switch {
	case t.Kind() == reflect.Struct:
		return d.reference(t)
	case t.Kind() == reflect.Map:
		return &jsonSchema{Type: "object", AdditionalProperties: d.value(t.Elem())}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonSchema{Type: "string"}
	case t.Kind() == reflect.Slice:
		return &jsonSchema{Type: "array", Items: d.value(t.Elem())}
	case s.Type == "":
		d.errs = append(d.errs, fmt.Errorf("type %s has no JSON type", t))
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64:
		s.Minimum = new(int)
	}

	return s
}

// reference returns a reference to the definition of a struct, and creates the definition if there
// is none yet.
func (d *describer) reference(t reflect.Type) *jsonSchema {
	name := t.Name()
	if !isOwn(t) {
		name = strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + name
	}

	if _, exists := d.definitions[name]; !exists {
		d.definitions[name] = nil // A type may contain itself.
		d.definitions[name] = d.object(t)
	}

	return &jsonSchema{Ref: "#/definitions/" + name}
}
