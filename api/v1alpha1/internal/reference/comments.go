package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"strings"
)

// comments are the descriptions of the ProviderSpec's own types, by the types' names, and of their fields, by the names in JSON.
// A type's own description has the key "".
type comments map[string]map[string]string

// readComments reads the comments of the exported types in a folder.
func readComments(folder string) (comments, error) {
	tests := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }

	//nolint:staticcheck // It ignores build tags and test packages, of which these files have none.
	packages, err := parser.ParseDir(token.NewFileSet(), folder, tests, parser.ParseComments)
	if err != nil {
		return nil, err
	}

	found := comments{}

	for _, pkg := range packages {
		for _, file := range pkg.Files {
			for _, declaration := range file.Decls {
				if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.TYPE {
					found.add(general)
				}
			}
		}
	}

	return found, nil
}

func (c comments) add(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		typeSpec, ok := spec.(*ast.TypeSpec)
		if !ok || !typeSpec.Name.IsExported() {
			continue
		}

		doc := typeSpec.Doc
		if doc == nil {
			doc = declaration.Doc
		}

		fields := map[string]string{"": sentences(doc.Text())}
		c[typeSpec.Name.Name] = fields

		if structType, ok := typeSpec.Type.(*ast.StructType); ok {
			addFields(fields, structType)
		}
	}
}

func addFields(fields map[string]string, structType *ast.StructType) {
	for _, f := range structType.Fields.List {
		if f.Tag == nil {
			continue
		}

		name := jsonName(reflect.StructTag(strings.Trim(f.Tag.Value, "`")))
		for _, identifier := range f.Names {
			text := sentences(f.Doc.Text())

			// Readers know the name in JSON only.
			if rest, ok := strings.CutPrefix(text, identifier.Name+" "); ok {
				text = name + " " + rest
			}

			fields[name] = text
		}
	}
}

// describedByPackage is how the packages of KubeVirt, CDI and Kubernetes carry their comments.
type describedByPackage interface {
	SwaggerDoc() map[string]string
}

// of returns the description of a type's field, or of the type itself if the name is "".
func (c comments) of(t reflect.Type, name string) string {
	if isOwn(t) {
		return c[t.Name()][name]
	}

	if described, ok := reflect.New(t).Interface().(describedByPackage); ok {
		return sentences(described.SwaggerDoc()[name])
	}

	return ""
}

var space = regexp.MustCompile(`\s+`)

// sentences returns a comment without markers for other generators ("+optional"), in one line.
func sentences(comment string) string {
	var lines []string

	for line := range strings.Lines(comment) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "+") && line != "---" {
			lines = append(lines, line)
		}
	}

	return space.ReplaceAllString(strings.Join(lines, " "), " ")
}

// isOwn says whether a type is one of the ProviderSpec's own.
func isOwn(t reflect.Type) bool {
	return t.Name() != "" && t.PkgPath() == rootType().PkgPath()
}

func jsonName(tag reflect.StructTag) string {
	name, _, _ := strings.Cut(tag.Get("json"), ",")

	return name
}
