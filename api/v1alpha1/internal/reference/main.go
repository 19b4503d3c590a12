// Command reference writes what editors and people read about the ProviderSpec: its JSON schema, and the field tables of
// docs/provider-spec.md. It makes both from the Go types that the driver decodes, and from their comments. `make generate` calls
// it. It must not know how specs are judged or rendered, and it reads nothing but this repository.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// files say where the types are, and where their descriptions go.
type files struct {
	types  string
	goMod  string
	schema string
	page   string
}

func main() {
	var f files

	flag.StringVar(&f.types, "types", "api/v1alpha1", "Folder of the ProviderSpec's Go types.")
	flag.StringVar(&f.goMod, "go-mod", "go.mod", "File that says which versions of other types to link to.")
	flag.StringVar(&f.schema, "schema", "api/v1alpha1/providerspec.schema.json", "File to write the JSON schema to.")
	flag.StringVar(&f.page, "page", "docs/provider-spec.md", "File whose part between the markers is replaced by the field tables.")
	flag.Parse()

	if err := f.generate(); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func (f files) generate() error {
	schema, page, err := f.contents()
	if err != nil {
		return err
	}

	return errors.Join(write(f.schema, schema), write(f.page, page))
}

// contents returns what the files should be.
func (f files) contents() (schema, page []byte, err error) {
	docs, err := readComments(f.types)
	if err != nil {
		return nil, nil, fmt.Errorf("read the types' comments: %w", err)
	}

	goMod, err := os.ReadFile(f.goMod)
	if err != nil {
		return nil, nil, err
	}

	page, err = os.ReadFile(f.page)
	if err != nil {
		return nil, nil, err
	}

	schema, err = schemaFile(docs)
	if err != nil {
		return nil, nil, fmt.Errorf("make the JSON schema: %w", err)
	}

	page, err = withTables(page, docs, newLinker(goMod))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.page, err)
	}

	return schema, page, nil
}

// write leaves a file alone that is what it should be, so that nothing is rebuilt because of it.
func write(path string, content []byte) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) { //nolint:gosec // The developer names the file.
		return nil
	}

	return os.WriteFile(path, content, 0o644) //nolint:gosec // A source file, for everybody to read.
}

// rootType is what both outputs describe.
func rootType() reflect.Type {
	return reflect.TypeFor[v1alpha1.ProviderSpec]()
}
