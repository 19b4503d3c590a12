// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package output prints the results of the operator's commands: for scripts as kubectl does, and as text for people.
// It knows no cluster and no manifest.
package output

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	// DocsURL is the address of the documentation.
	DocsURL = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/docs/"
	// TroubleshootingURL is the page that lists every cause.
	TroubleshootingURL = DocsURL + "troubleshooting.md"
)

// Page is the text output of a command.
type Page struct {
	Template string
	Funcs    template.FuncMap
	// Columns is set to format the text as headings, and names with their texts: see columns.
	Columns bool
}

// Write executes the template.
func (p Page) Write(out io.Writer, data any) error {
	var text strings.Builder

	on := terminalOf(out)
	shared := template.FuncMap{"count": Count, "join": strings.Join, "printable": statustext.Printable, "level": on.level, "hang": on.hang}

	page, err := template.New("").Funcs(shared).Funcs(p.Funcs).Parse(p.Template)
	if err == nil {
		err = page.Execute(&text, data)
	}

	lines := text.String()
	if p.Columns {
		lines = columns(lines, on)
	}

	if err == nil {
		_, err = io.WriteString(out, lines)
	}

	if err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return nil
}

// nameWidth is the length of the longest name, VirtualMachineInstance.
const nameWidth = 22

// columns formats headings, and lines of a name, a tab and a text: it separates headings by empty
// lines, aligns and wraps texts, and drops empty ones. A second tab keeps a text on one line, so
// that it can be copied.
func columns(text string, on terminal) string {
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

// Sanitize makes all untrusted texts in the fields of a result safe for terminals. The result is a pointer.
func Sanitize(result any) { sanitize(reflect.ValueOf(result)) }

func sanitize(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // Values of other kinds contain no texts.
	case reflect.String:
		if v.CanSet() {
			v.SetString(statustext.Printable(v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		sanitize(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			sanitize(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				sanitize(v.Field(i))
			}
		}
	}
}

// Count returns a number with its noun.
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}
