// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command schema writes the JSON Schemas (draft 7, which editors support best) of the ProviderSpec
// and of the extension's configs, for editors and kubeconform. controller-gen's library reads them
// from the Go types, their comments and their markers; `make generate` runs the command. It is a
// separate Go module, so that the driver does not depend on that library. It must not depend on the types.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	toolsmarkers "sigs.k8s.io/controller-tools/pkg/markers"
)

func main() {
	module := flag.String("module", ".", "the folder of the Go module with the types")
	path := flag.String("package", "", "the package of the types, relative to the module, such as ./api/v1alpha1")
	output := flag.String("output", "", "the folder to write TYPE_VERSION.json into, for each type of the arguments")
	flag.Parse()

	if err := generate(*module, *path, *output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

// generate writes a file for each type.
func generate(module, path, output string, types []string) error {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Dir: module}, path)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}

	if len(roots) != 1 {
		return fmt.Errorf("%s must be one package", path)
	}

	parser, err := newParser()
	if err != nil {
		return err
	}

	for _, name := range types {
		document, err := schemaOf(parser, crd.TypeIdent{Package: roots[0], Name: name})
		if err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}

		file := strings.ToLower(name) + "_" + parser.GroupVersions[roots[0]].Version + ".json"
		if err := os.WriteFile(filepath.Join(output, file), document, 0o644); err != nil { //nolint:gosec // Everybody may read it.
			return fmt.Errorf("write the schema of %s: %w", name, err)
		}
	}

	// Types are checked only as far as the schemas need them.
	if loader.PrintErrors(roots, packages.TypeError) {
		return errors.New("some types have no schema")
	}

	return nil
}

// newParser returns a parser that knows the markers of controller-gen, and the types that decode
// themselves.
func newParser() (*crd.Parser, error) {
	registry := &toolsmarkers.Registry{}
	if err := errors.Join(markers.Register(registry), toolsmarkers.RegisterAll(registry, requiredKeysMarker)); err != nil {
		return nil, fmt.Errorf("register the markers: %w", err)
	}

	parser := &crd.Parser{
		Collector:                  &toolsmarkers.Collector{Registry: registry},
		Checker:                    &loader.TypeChecker{},
		IgnoreUnexportedFields:     true,
		GenerateEmbeddedObjectMeta: true,
	}
	crd.AddKnownTypes(parser)

	return parser, nil
}

// requiredKeysMarker marks a map whose keys are not all optional: +schema:requiredKeys={"a","b"}.
var requiredKeysMarker = toolsmarkers.Must(toolsmarkers.MakeDefinition("schema:requiredKeys", toolsmarkers.DescribesField, requiredKeys(nil)))

type requiredKeys []string

// ApplyToSchema implements crd.SchemaMarker.
func (k requiredKeys) ApplyToSchema(schema *apiextensionsv1.JSONSchemaProps) error {
	if schema.Type != "object" {
		return fmt.Errorf("schema:requiredKeys: must mark a map, not the type %s", schema.Type)
	}

	schema.Required = k

	return nil
}

// schemaOf returns the JSON Schema of a type, with the types that it refers to as definitions.
func schemaOf(parser *crd.Parser, root crd.TypeIdent) ([]byte, error) {
	d := &definitions{parser: parser, schemas: map[string]schema{}}

	document := d.converted(root)
	if d.err != nil {
		return nil, d.err
	}

	document["$schema"] = "http://json-schema.org/draft-07/schema#"
	document["title"] = root.Name
	document["definitions"] = d.schemas

	for _, field := range []struct{ name, value string }{{"apiVersion", parser.GroupVersions[root.Package].String()}, {"kind", root.Name}} {
		property := objectOf(objectOf(document, "properties"), field.name)
		property["enum"] = []any{field.value} // A manifest that names another kind is not of this type.

		if declares(parser, root, field.name) {
			property["enum"] = []any{field.value, "", nil}
		} else { // It has a TypeMeta, from which its type is known.
			required, _ := document["required"].([]any)
			document["required"] = append(required, field.name)
			property["type"] = "string"
		}
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")

	err := encoder.Encode(document)

	return out.Bytes(), err
}

// declares reports whether a struct itself has a field, rather than a struct that it embeds.
func declares(parser *crd.Parser, t crd.TypeIdent, name string) bool {
	return slices.ContainsFunc(fieldsOf(parser, t), func(field toolsmarkers.FieldInfo) bool {
		return strings.HasPrefix(field.Tag.Get("json"), name+",")
	})
}

// fieldsOf returns the fields of a struct; none for a type whose schema controller-gen itself knows.
func fieldsOf(parser *crd.Parser, t crd.TypeIdent) []toolsmarkers.FieldInfo {
	if info := parser.Types[t]; info != nil {
		return info.Fields
	}

	return nil
}
