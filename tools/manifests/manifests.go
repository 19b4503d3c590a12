// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads MachineClasses, MachineDeployments and Secrets from files, with the line of each field, and
// checks what is known without the driver. The commands validate, render and preflight call it. It must not depend on a
// cluster.
package manifests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// Objects are the objects of all files.
type Objects struct {
	Classes     []Class
	Deployments []Deployment
	secrets     []secret
	// unreadable are the errors for files, or parts of them, that are not objects.
	Unreadable []FileError
	// kinds are the kinds of all objects, and skipped counts the objects of other kinds.
	kinds   map[string]bool
	Skipped int
}

// FileError is an error in a file.
type FileError struct {
	File    string `json:"file"`
	Message string `json:"message"`
}

// Read reads all files. It returns an error if one of them cannot be read at all.
func Read(files *FileFlags, in io.Reader) (*Objects, error) {
	if !files.Given() {
		return nil, errors.New("no files specified; set --filename (-f) or --kustomize (-k)")
	}

	m := &Objects{kinds: map[string]bool{}}

	if files.Kustomize != "" {
		return m, m.build(files.Kustomize)
	}

	for _, name := range files.Names {
		if err := m.read(files, name, in); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
	}

	return m, nil
}

// RequireClass returns an error if there is neither a MachineClass nor an error.
func (m *Objects) RequireClass() error {
	if len(m.Classes) == 0 && len(m.Unreadable) == 0 {
		return m.noClass()
	}

	return nil
}

func (m *Objects) read(files *FileFlags, name string, in io.Reader) error {
	if name == "-" {
		text, err := io.ReadAll(in)
		m.addFile("standard input", text)

		return err
	}

	paths, err := files.list(name)
	if err != nil {
		return err
	}

	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // The user names the file, or its folder.
		if err != nil {
			return err
		}

		m.addFile(path, text)
	}

	return nil
}

// build adds the objects of a kustomization. Their lines are those of the output of kubectl kustomize.
func (m *Objects) build(folder string) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("build --kustomize %s: %w", folder, err)
	}

	text, err := built.AsYaml()
	if err != nil {
		return fmt.Errorf("build --kustomize %s: %w", folder, err)
	}

	m.addFile("kustomize "+folder, text)

	return nil
}

func (m *Objects) addFile(file string, text []byte) {
	documents, errs := parseDocuments(file, text)
	for _, err := range errs {
		m.addError(file, err.Error())
	}

	for _, d := range documents {
		m.add(d, metav1.TypeMeta{})
	}
}

// add adds an object. Type fields that the object lacks are taken from its list.
func (m *Objects) add(d document, ofList metav1.TypeMeta) {
	var object struct {
		metav1.TypeMeta `json:",inline"`

		Items []json.RawMessage `json:"items"`
	}

	object.TypeMeta = ofList

	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.raw, &object); err != nil || object.Kind == "" {
		m.addError(d.file, fmt.Sprintf("line %d: the object that begins here has no kind: it is not a Kubernetes manifest", d.line))

		return
	}

	if kind, isList := strings.CutSuffix(object.Kind, "List"); isList && object.Items != nil {
		m.addList(d, object.Items, metav1.TypeMeta{Kind: kind, APIVersion: object.APIVersion})

		return
	}

	m.kinds[object.GroupVersionKind().GroupKind().String()] = true

	switch {
	case isKind(object.TypeMeta, machine.GroupName, "MachineClass"):
		m.Classes = append(m.Classes, readClass(d, object.TypeMeta))
	case isKind(object.TypeMeta, machine.GroupName, "MachineDeployment"):
		m.Deployments = append(m.Deployments, readDeployment(d, object.TypeMeta))
	case isKind(object.TypeMeta, corev1.GroupName, "Secret"):
		m.secrets = append(m.secrets, readSecret(d))
	default:
		m.Skipped++
	}
}

// isKind reports whether an object has this kind, or an apiVersion that is wrong for it: the group of another
// API, such as that of Cluster API's MachineDeployments, has a dot.
func isKind(is metav1.TypeMeta, group, kind string) bool {
	found := is.GroupVersionKind().Group

	return is.Kind == kind && (found == group || !strings.Contains(found, "."))
}

func (m *Objects) addList(d document, items []json.RawMessage, of metav1.TypeMeta) {
	if of.Kind == "" {
		of.APIVersion = "" // a List of arbitrary kinds
	}

	for _, duplicate := range d.duplicates {
		m.addError(d.file, duplicate)
	}

	for i, item := range items {
		lines := d.lines.item(i)
		m.add(document{file: d.file, line: cmp.Or(lines.line(""), d.line), raw: item, lines: lines}, of)
	}
}

func (m *Objects) addError(file, message string) {
	m.Unreadable = append(m.Unreadable, FileError{File: file, Message: message})
}

// noClass returns an error that describes the contents of files without a MachineClass.
func (m *Objects) noClass() error {
	if len(m.Unreadable) > 0 {
		return output.InvalidError(m.Unreadable[0].File + ": " + m.Unreadable[0].Message)
	}

	kinds := slices.Sorted(maps.Keys(m.kinds))
	if len(kinds) == 0 {
		return errors.New("the files contain no MachineClass and no other object")
	}

	return fmt.Errorf("the files contain no MachineClass, but objects of kind %s", strings.Join(kinds, ", "))
}

// ClassNames returns the names of the MachineClasses.
func (m *Objects) ClassNames() []string {
	var names []string
	for _, class := range m.Classes {
		names = append(names, class.Name)
	}

	return names
}
