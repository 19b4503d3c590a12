package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// manifests are the objects of all files.
type manifests struct {
	classes []machineClass
	secrets []secret
	// unreadable are the errors for files, or parts of them, that are not objects.
	unreadable []fileError
	// skipped counts the objects of other kinds.
	skipped map[string]int
}

// fileError is an error in a file.
type fileError struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

// readManifests reads all files. It returns an error if one of them cannot be read at all.
func readManifests(names []string, in io.Reader) (*manifests, error) {
	if len(names) == 0 {
		return nil, errors.New("no files specified; set --filename (-f)")
	}

	m := &manifests{skipped: map[string]int{}}

	for _, name := range names {
		sources, err := readSources(name, in)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}

		for _, s := range sources {
			m.addSource(s)
		}
	}

	return m, nil
}

func (m *manifests) addSource(s source) {
	documents, errs := s.documents()
	for _, err := range errs {
		m.unreadable = append(m.unreadable, fileError{File: s.name, Message: err.Error()})
	}

	for _, d := range documents {
		m.add(d, metav1.TypeMeta{})
	}
}

// add adds an object. Type fields that the object lacks are taken from its list.
func (m *manifests) add(d document, ofList metav1.TypeMeta) {
	var object struct {
		metav1.TypeMeta `json:",inline"`

		Items []json.RawMessage `json:"items"`
	}

	object.TypeMeta = ofList

	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.raw, &object); err != nil || object.Kind == "" {
		m.addError(d, "the object that begins here has no kind: it is not a Kubernetes manifest")

		return
	}

	switch kind, isList := strings.CutSuffix(object.Kind, "List"); {
	case object.Kind == "MachineClass":
		m.classes = append(m.classes, readClass(d, object.TypeMeta))
	case object.Kind == "Secret":
		m.secrets = append(m.secrets, readSecret(d))
	case isList && object.Items != nil:
		m.addList(d, object.Items, metav1.TypeMeta{Kind: kind, APIVersion: object.APIVersion})
	default:
		m.skipped[object.Kind]++
	}
}

func (m *manifests) addList(d document, items []json.RawMessage, of metav1.TypeMeta) {
	if of.Kind == "" {
		of.APIVersion = "" // a List of arbitrary kinds
	}

	for _, duplicate := range d.duplicates {
		m.unreadable = append(m.unreadable, fileError{File: d.file, Message: duplicate})
	}

	for _, item := range items {
		m.add(document{file: d.file, line: d.line, raw: item}, of)
	}
}

func (m *manifests) addError(d document, message string) {
	m.unreadable = append(m.unreadable, fileError{File: d.file, Message: fmt.Sprintf("line %d: %s", d.line, message)})
}

// countSkipped returns the number of skipped objects.
func (m *manifests) countSkipped() int {
	count := 0
	for _, n := range m.skipped {
		count += n
	}

	return count
}

// noClass returns an error that describes the contents of files without a MachineClass.
func (m *manifests) noClass() error {
	if len(m.unreadable) > 0 {
		return &invalidError{reason: m.unreadable[0].File + ": " + m.unreadable[0].Message}
	}

	kinds := slices.Sorted(maps.Keys(m.skipped))
	if len(m.secrets) > 0 {
		kinds = append(kinds, "Secret")
	}

	if len(kinds) == 0 {
		return errors.New("the files contain no MachineClass and no other object")
	}

	return fmt.Errorf("the files contain no MachineClass, but objects of kind %s", strings.Join(kinds, ", "))
}
