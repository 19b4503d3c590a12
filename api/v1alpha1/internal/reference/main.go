// Command reference writes the JSON schema of the ProviderSpec, for editors, and the field tables
// of docs/provider-spec.md. `make generate` runs it in the root of the repository. Both outputs
// follow from the Go types that the driver decodes and from their comments; the command must not
// depend on the validation and the use of a ProviderSpec.
//
// No tool does this: controller-gen writes schemas of CustomResourceDefinitions, which inline all
// types, accept unknown fields, and require every field that KubeVirt requires, although the driver
// sets it; and crd-ref-docs links neither the embedded types of CDI nor the versions of go.mod.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The outputs, relative to the root of the repository.
const (
	schemaFile = "api/v1alpha1/providerspec.schema.json"
	pageFile   = "docs/provider-spec.md"
)

func main() {
	if err := generate("."); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// generate writes the outputs into a repository.
func generate(repository string) error {
	root, err := os.OpenRoot(repository)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // All files in it are closed.

	sources, sourceErr := filepath.Glob(filepath.Join(repository, "api/v1alpha1/types*.go"))
	goMod, goModErr := root.ReadFile("go.mod")
	page, pageErr := root.ReadFile(pageFile)

	if err := errors.Join(sourceErr, goModErr, pageErr); err != nil {
		return err
	}

	d := newDescriber(sources, goMod)
	schema, schemaErr := d.schema()
	page, pageErr = replaceGenerated(page, d.tables())

	if err := errors.Join(append(d.errs, schemaErr, pageErr)...); err != nil {
		return err
	}

	return errors.Join(root.WriteFile(schemaFile, schema, 0o644), root.WriteFile(pageFile, page, 0o644))
}
