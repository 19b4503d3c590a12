package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	outputText = "text"
	outputYAML = "yaml"
	outputJSON = "json"
)

// printObject prints an object as YAML or JSON.
func printObject(out io.Writer, format string, object any) error {
	text, err := yaml.Marshal(object)

	if format == outputJSON {
		text, err = json.MarshalIndent(object, "", "  ")
		text = append(text, '\n')
	}

	if err == nil {
		_, err = out.Write(text)
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return nil
}

// printObjects prints objects for kubectl apply: as a stream
// of YAML documents, or as one List in JSON.
func printObjects(out io.Writer, format string, objects []any) error {
	if format == outputJSON {
		return printObject(out, format, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	}

	for i, object := range objects {
		if i > 0 {
			fmt.Fprintln(out, "---")
		}

		if err := printObject(out, format, object); err != nil {
			return err
		}
	}

	return nil
}

// textFuncs returns the functions of the texts for people.
func textFuncs() template.FuncMap {
	return template.FuncMap{"count": count, "join": strings.Join, "printable": statustext.Printable}
}

// printResult prints the result of a command: as YAML or JSON for scripts, or as a text for people.
func printResult(out io.Writer, format string, result any, text string, funcs template.FuncMap) error {
	if format != outputText {
		return printObject(out, format, result)
	}

	page, err := template.New("").Funcs(textFuncs()).Funcs(funcs).Parse(text)
	if err == nil {
		err = page.Execute(out, result)
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return nil
}

// sanitize makes untrusted texts safe for terminals.
func sanitize(texts ...*string) {
	for _, text := range texts {
		*text = statustext.Printable(*text)
	}
}

// count returns a number with its noun.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}
