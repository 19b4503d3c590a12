package main

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

const (
	outputText = "text"
	outputYAML = "yaml"
	outputJSON = "json"
)

// printObject prints an object as YAML or JSON.
func printObject(out io.Writer, format string, object any) error {
	var (
		text []byte
		err  error
	)

	if format == outputJSON {
		text, err = json.MarshalIndent(object, "", "  ")
		text = append(text, '\n')
	} else {
		text, err = yaml.Marshal(object)
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	if _, err := out.Write(text); err != nil {
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
