package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// source is the content of a file.
type source struct {
	name string
	text []byte
}

// readSources reads a file, all manifests of a folder, or standard input.
func readSources(name string, in io.Reader) ([]source, error) {
	if name == "-" {
		text, err := io.ReadAll(in)

		return []source{{name: "standard input", text: text}}, err
	}

	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}

	if !info.IsDir() {
		text, err := os.ReadFile(name) //nolint:gosec // The user names the file.

		return []source{{name: name, text: text}}, err
	}

	return readFolder(name)
}

func readFolder(name string) ([]source, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}

	var sources []source

	for _, entry := range entries {
		path := filepath.Join(name, entry.Name())
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			continue
		}

		text, err := os.ReadFile(path) //nolint:gosec // The user names the folder.
		if err != nil {
			return nil, err
		}

		sources = append(sources, source{name: path, text: text})
	}

	if len(sources) == 0 {
		return nil, fmt.Errorf("folder %s has no files *.yaml, *.yml or *.json", name)
	}

	return sources, nil
}

// document is one object of a file, as JSON.
type document struct {
	file string
	line int
	raw  []byte
	// duplicates describe the duplicate keys in its YAML. raw contains the last value of each.
	duplicates []string
}

// A syntaxError is the position and the reason of a syntax error. It
// quotes nothing: the file may contain secrets.
type syntaxError struct {
	line   int
	reason string
}

func (e *syntaxError) Error() string {
	if e.line == 0 {
		return e.reason
	}

	return fmt.Sprintf("line %d: %s", e.line, e.reason)
}

// documents returns the objects of a file, and the errors for parts that cannot be parsed.
func (s source) documents() ([]document, []error) {
	text := bytes.TrimPrefix(s.text, []byte("\uFEFF")) // the BOM of some Windows editors
	if !utf8.Valid(text) {
		return nil, []error{&syntaxError{reason: "the file is not UTF-8 text; save it with that encoding"}}
	}

	var (
		found []document
		errs  []error
	)

	for _, p := range split(text) {
		documents, err := p.documents()
		if err != nil {
			errs = append(errs, err)
		}

		for _, d := range documents {
			d.file = s.name
			found = append(found, d)
		}
	}

	return found, errs
}

// part is the text between two separators, and the number of lines before it.
type part struct {
	before int
	text   []byte
}

func split(text []byte) []part {
	parts := []part{{}}

	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		if separator, rest := []byte("---"), bytes.TrimSpace(line); bytes.HasPrefix(line, separator) && len(rest) == len(separator) {
			parts = append(parts, part{before: i + 1})
		} else {
			last := &parts[len(parts)-1]
			last.text = append(last.text, line...)
		}
	}

	return parts
}

// documents returns the objects of a part: any number of
// consecutive JSON objects, or at most one in YAML.
func (p part) documents() ([]document, error) {
	if found, ok := p.jsonStream(); ok {
		return found, nil
	}

	// Empty lines in place of the preceding ones make error
	// messages contain the file's line numbers.
	text := append(bytes.Repeat([]byte("\n"), p.before), p.text...)
	d := document{line: p.before + 1 + leadingLines(p.text)}

	raw, strictErr := yaml.YAMLToJSONStrict(text)
	if strictErr != nil {
		var err error
		if raw, err = yaml.YAMLToJSON(text); err != nil {
			return nil, p.explain(err)
		}

		d.duplicates = duplicates(strictErr)
	}

	d.raw = raw
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil, nil
	}

	return []document{d}, nil
}

// jsonStream keeps the original bytes, so that duplicate keys can still be detected.
func (p part) jsonStream() ([]document, bool) {
	var (
		found   []document
		decoder = json.NewDecoder(bytes.NewReader(p.text))
	)

	for {
		line := p.before + 1 + bytes.Count(p.text[:decoder.InputOffset()], []byte("\n"))
		line += leadingLines(p.text[decoder.InputOffset():])

		var raw json.RawMessage

		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return found, len(found) > 0
		}

		if err != nil || raw[0] != '{' {
			return nil, false
		}

		found = append(found, document{line: line, raw: raw})
	}
}

// leadingLines counts the empty lines and comments at the beginning.
func leadingLines(text []byte) int {
	count := 0

	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return count
		}

		count++
	}

	return 0
}

var duplicateKey = regexp.MustCompile(`line (\d+): key (.+) already set in map`)

func duplicates(err error) []string {
	var list []string
	for _, match := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
		list = append(list, fmt.Sprintf("line %s: the field %s is given twice; remove one of them", match[1], match[2]))
	}

	return list
}

// yamlSyntax matches the parser's messages that quote nothing.
var yamlSyntax = regexp.MustCompile(`line \d+: (?:did not find|could not find|found|mapping values are not allowed) .*`)

// explain returns the reason why a part of a file cannot be parsed.
func (p part) explain(err error) error {
	const remedy = "check the indentation (spaces, not tabs), the quotes and the colons"

	if before, _, found := bytes.Cut(p.text, []byte("{{")); found {
		return &syntaxError{
			line:   p.before + 1 + bytes.Count(before, []byte("\n")),
			reason: `neither YAML nor JSON; the "{{" suggests a template: render it first, for example with helm template`,
		}
	}

	if message := yamlSyntax.FindString(err.Error()); message != "" {
		return &syntaxError{reason: "near " + message + "; " + remedy}
	}

	return &syntaxError{line: p.before + 1 + leadingLines(p.text), reason: "the text that begins here is neither YAML nor JSON; " + remedy}
}
