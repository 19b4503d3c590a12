package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode/utf8"

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

// printResult prints the result of a command: as YAML or JSON for scripts, or as text for people.
func printResult(out io.Writer, format string, result any, text string, funcs template.FuncMap) error {
	if format != outputText {
		return printObject(out, format, result)
	}

	return printText(out, terminalOf(out), result, text, funcs)
}

// printText executes a template for people.
func printText(out io.Writer, on terminal, result any, text string, funcs template.FuncMap) error {
	shared := template.FuncMap{"count": count, "join": strings.Join, "printable": statustext.Printable, "level": on.level, "hang": on.hang}

	page, err := template.New("").Funcs(shared).Funcs(funcs).Parse(text)
	if err == nil {
		err = page.Execute(out, result)
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return nil
}

// printPage is like printResult, but formats the text with layout.
func printPage(out io.Writer, format string, result any, text string, funcs template.FuncMap) error {
	if format != outputText {
		return printObject(out, format, result)
	}

	var page strings.Builder

	on := terminalOf(out)
	if err := printText(&page, on, result, text, funcs); err != nil {
		return err
	}

	_, err := io.WriteString(out, layout(page.String(), on))

	return err
}

// nameWidth is the length of the longest name, VirtualMachineInstance.
const nameWidth = 22

// layout lays out headings, and lines of a name, a tab and a text: it separates headings by empty
// lines, aligns and wraps texts, and drops empty ones. A second tab keeps a text on one line, so
// that it can be copied.
func layout(text string, on terminal) string {
	var b strings.Builder

	for line := range strings.Lines(text) {
		name, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		command, whole := strings.CutPrefix(text, "\t")

		switch {
		case !found && strings.TrimSpace(name) == "", found && strings.TrimSpace(text) == "":
		case !found:
			b.WriteString("\n" + on.heading(name) + "\n")
		case whole:
			fmt.Fprintf(&b, "  %-*s  %s\n", nameWidth, name, command)
		default:
			for _, part := range wrapped(text, on.pageWidth()-nameWidth-4) {
				fmt.Fprintf(&b, "  %-*s  %s\n", nameWidth, name, part)
				name = ""
			}
		}
	}

	return strings.TrimPrefix(b.String(), "\n")
}

// wrapped breaks a text into lines of at most width characters,
// between words if possible. A URL stays whole.
func wrapped(text string, width int) []string {
	var (
		lines []string
		line  string
	)

	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}

		line = strings.TrimSpace(line + " " + word)

		for letters := []rune(line); len(letters) > width && !strings.HasPrefix(line, "https://"); letters = []rune(line) {
			lines = append(lines, string(letters[:width]))
			line = string(letters[width:])
		}
	}

	return append(lines, line)
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
