package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// jsonSchema is what is used here of JSON Schema, draft 7: the draft that editors' YAML and JSON support knows best. Beside a $ref,
// that draft ignores everything else, hence allOf.
type jsonSchema struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// DeprecationMessage is not JSON Schema's; editors show it.
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

const (
	draft    = "http://json-schema.org/draft-07/schema#"
	schemaID = "https://raw.githubusercontent.com/gardener/machine-controller-manager-provider-kubevirt/main/api/v1alpha1/providerspec.schema.json"
)

// schemaFile returns the JSON schema of the ProviderSpec.
func schemaFile(docs comments) ([]byte, error) {
	b := &schemaBuilder{docs: docs, definitions: map[string]*jsonSchema{}}

	root, err := b.object(rootType())
	if err != nil {
		return nil, err
	}

	root.Schema = draft
	root.ID = schemaID
	root.Title = rootType().Name()
	root.Definitions = b.definitions

	root.Properties["apiVersion"].Enum = []string{v1alpha1.APIVersion}
	root.Properties["kind"].Enum = []string{v1alpha1.Kind}
	root.Properties["tags"].Required = []string{v1alpha1.TagCluster, v1alpha1.TagRole}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	if err := encoder.Encode(root); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// schemaBuilder makes one definition of each struct.
type schemaBuilder struct {
	docs        comments
	definitions map[string]*jsonSchema
}

// object returns the schema of a struct. Unknown fields are errors, as they are for the decoder.
func (b *schemaBuilder) object(t reflect.Type) (*jsonSchema, error) {
	s := &jsonSchema{
		Type:                 "object",
		Description:          b.docs.of(t, ""),
		Properties:           map[string]*jsonSchema{},
		AdditionalProperties: false,
	}

	for _, f := range fieldsOf(t) {
		property, err := b.property(f)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.name, err)
		}

		s.Properties[f.name] = property

		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}

	return s, nil
}

// property returns the schema of a field. What the driver always refuses is in the schema only to say what to do instead.
func (b *schemaBuilder) property(f specField) (*jsonSchema, error) {
	text := b.docs.of(f.owner, f.name)
	if isOwn(f.owner) && strings.Contains(text, " is not supported.") {
		return &jsonSchema{Description: text, Not: &jsonSchema{}}, nil
	}

	property, err := b.value(f.goType)
	if err != nil {
		return nil, err
	}

	if property.Ref != "" && text != "" {
		property = &jsonSchema{AllOf: []*jsonSchema{property}}
	}

	property.Description = text

	if isOwn(f.owner) && strings.Contains(text, "Deprecated.") {
		property.DeprecationMessage = text
	}

	return property, nil
}

// value returns the schema of a field's value.
func (b *schemaBuilder) value(t reflect.Type) (*jsonSchema, error) {
	t = deref(t)

	special, err := scalarOf(t)
	if err != nil {
		return nil, err
	}

	if special != nil {
		return &jsonSchema{Type: oneOrMore(special.types), Format: special.format}, nil
	}

	switch t.Kind() {
	case reflect.Struct:
		return b.reference(t)
	case reflect.Map:
		values, err := b.value(t.Elem())

		return &jsonSchema{Type: "object", AdditionalProperties: values}, err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &jsonSchema{Type: "string"}, nil
		}

		items, err := b.value(t.Elem())

		return &jsonSchema{Type: "array", Items: items}, err
	default:
		return plain(t)
	}
}

func plain(t reflect.Type) (*jsonSchema, error) {
	switch t.Kind() {
	case reflect.Bool:
		return &jsonSchema{Type: "boolean"}, nil
	case reflect.String:
		return &jsonSchema{Type: "string", Enum: valuesOf(t)}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &jsonSchema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &jsonSchema{Type: "integer", Minimum: new(int)}, nil
	default:
		return nil, fmt.Errorf("type %s has no JSON schema here: add it to schema.go", t)
	}
}

// reference returns a reference to the definition of a struct, and makes that if there is none yet.
func (b *schemaBuilder) reference(t reflect.Type) (*jsonSchema, error) {
	name := definitionName(t)

	if _, made := b.definitions[name]; !made {
		b.definitions[name] = nil // A type may contain itself.

		definition, err := b.object(t)
		if err != nil {
			return nil, err
		}

		b.definitions[name] = definition
	}

	return &jsonSchema{Ref: "#/definitions/" + name}, nil
}

func definitionName(t reflect.Type) string {
	if isOwn(t) {
		return t.Name()
	}

	return strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
}

func oneOrMore(types []string) any {
	if len(types) == 1 {
		return types[0]
	}

	return types
}
