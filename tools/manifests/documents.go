// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// document is one object of a file, as JSON.
type document struct {
	file string
	line int
	raw  []byte
	// lines finds the lines of its fields.
	lines fieldLines
	// duplicates describe the duplicate keys in its YAML. raw contains the last value of each.
	duplicates []string
}

// parseDocuments returns the objects of a file, and the errors for parts that cannot be parsed. The
// errors do not quote the file, which may contain secrets.
func parseDocuments(file string, text []byte) (found []document, errs []error) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // the BOM of some Windows editors
	if !utf8.Valid(text) {
		return nil, []error{errors.New("the file is not UTF-8 text; save it with that encoding")}
	}

	for _, p := range parts(file, text) {
		documents, err := p.documents()
		if err != nil {
			errs = append(errs, err)
		}

		found = append(found, documents...)
	}

	return found, errs
}

// separator begins a document, which may begin in the same line.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t\r]|$)`)

// parts splits a file at its separators. apimachinery's YAMLReader loses the text before a separator
// that it refuses, and leaves a leading one in the text, which is no JSON then.
func parts(file string, text []byte) []filePart {
	var list []filePart

	begin := 0

	for _, at := range append(separator.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		list = append(list, filePart{file: file, before: bytes.Count(text[:begin], []byte("\n")), text: text[begin:at[0]]})
		begin = at[0] + min(len("---"), at[1]-at[0])
	}

	return list
}

// filePart is the text between two separators of a file, and the number of lines before it.
type filePart struct {
	file   string
	before int
	text   []byte
}

// documents returns the objects of a part: any number of
// consecutive JSON objects, or at most one in YAML.
func (p filePart) documents() ([]document, error) {
	if found, ok := p.jsonStream(); ok {
		return found, nil
	}

	// Empty lines in place of the preceding ones make error
	// messages contain the file's line numbers.
	text := append(bytes.Repeat([]byte("\n"), p.before), p.text...)
	d := document{file: p.file, line: p.line(0)}

	raw, strictErr := yaml.YAMLToJSONStrict(text)
	if strictErr != nil {
		var err error
		if raw, err = yaml.YAMLToJSON(text); err != nil {
			return nil, p.explain(err)
		}

		d.duplicates = duplicates(strictErr)
	}

	d.raw = raw
	d.lines = linesOf(text, 0)
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil, nil
	}

	return []document{d}, nil
}

// jsonStream keeps the original bytes, so that duplicate keys can still be detected.
func (p filePart) jsonStream() (found []document, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(p.text))

	for {
		line := p.line(decoder.InputOffset())

		var raw json.RawMessage

		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return found, len(found) > 0
		}

		if err != nil || raw[0] != '{' {
			return nil, false
		}

		found = append(found, document{file: p.file, line: line, raw: raw, lines: linesOf(raw, line-1)})
	}
}

// line returns the line of the file in which the object after an offset begins, after empty lines
// and comments.
func (p filePart) line(offset int64) int {
	first := p.before + 1 + bytes.Count(p.text[:offset], []byte("\n"))
	line := first

	for text := range bytes.Lines(p.text[offset:]) {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' {
			return line
		}

		line++
	}

	return first
}

var duplicateKey = regexp.MustCompile(`line (\d+): key (.+) already set in map`)

func duplicates(err error) []string {
	var list []string
	for _, match := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
		list = append(list, fmt.Sprintf("line %s: the field %s is given twice; remove one of them", match[1], match[2]))
	}

	return list
}

// yamlSyntax matches the parser's messages that do not quote the file.
var yamlSyntax = regexp.MustCompile(`line \d+: (?:did not find|could not find|found|mapping values are not allowed) .*`)

// explain returns the reason why a part of a file cannot be parsed, without its text.
func (p filePart) explain(err error) error {
	const remedy = "check the indentation (spaces, not tabs), the quotes and the colons"

	if before, _, found := bytes.Cut(p.text, []byte("{{")); found {
		return fmt.Errorf(`line %d: neither YAML nor JSON; the "{{" suggests a template: render it first, for example with helm template`,
			p.before+1+bytes.Count(before, []byte("\n")))
	}

	if message := yamlSyntax.FindString(err.Error()); message != "" {
		return fmt.Errorf("near %s; %s", message, remedy)
	}

	return fmt.Errorf("line %d: the text that begins here is neither YAML nor JSON; %s", p.line(0), remedy)
}
