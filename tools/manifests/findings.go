// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// Report is the report on one MachineClass or MachineDeployment.
type Report struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	File      string    `json:"file"`
	Line      int       `json:"line"`
	Errors    []Finding `json:"errors"`
	Warnings  []Finding `json:"warnings"`

	// lines finds the lines of the object's fields, and userData is the Secret with the user data.
	lines    fieldLines
	userData origin
}

// Finding is an error or a warning. Its field is empty if it is about the manifest as a whole.
type Finding struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	// Line is the line of the field in the file or, if it is missing, of the object that lacks it; zero if it
	// is unknown.
	Line int `json:"line,omitempty"`
	// File is the file of the line, if it is a line of the Secret with the user data.
	File string `json:"file,omitempty"`
}

// Fail adds an error.
func (r *Report) Fail(path, message string) {
	r.Errors = append(r.Errors, Finding{Field: path, Message: message})
}

func (r *Report) warn(path, message string) {
	r.Warnings = append(r.Warnings, Finding{Field: path, Message: message})
}

// AddErrors adds errors of fields.
func (r *Report) AddErrors(errs field.ErrorList) {
	for _, err := range errs {
		r.Fail(err.Field, err.ErrorBody())
	}
}

// AddWarnings adds warnings about fields.
func (r *Report) AddWarnings(warnings []validation.Warning) {
	for _, w := range warnings {
		r.warn(w.Field, w.Detail)
	}
}

// Sorted sorts the findings, removes duplicates and sets their lines. Those about the whole manifest
// come first. Without sorting, the order of some is random.
func (r *Report) Sorted() Report {
	r.addLines()

	for _, list := range []*[]Finding{&r.Errors, &r.Warnings} {
		slices.SortStableFunc(*list, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
		})

		*list = slices.Compact(*list)
	}

	return *r
}

// addLines sets the lines of the findings.
func (r *Report) addLines() {
	for _, list := range [][]Finding{r.Errors, r.Warnings} {
		for i := range list {
			switch f := &list[i]; {
			case f.Field == apiv1alpha1.SecretKeyUserData:
				f.File = r.userData.file
				f.Line = r.userData.line
			case f.Field != "":
				f.Line = r.lines.line(f.Field)
			}
		}
	}
}

// InFile returns the finding as one line, with its line in the file.
func (f Finding) InFile() string {
	switch {
	case f.Line == 0:
		return f.String()
	case f.File != "":
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f)
	}

	return fmt.Sprintf("line %d: %s", f.Line, f)
}

// UnreadableText is the part of a text about files that are not manifests.
const UnreadableText = `{{range .Unreadable}}{{.File}}
  {{level "error"}} {{hang 11 .Message}}

{{end}}`

// QualifiedName returns the name with its namespace, if there is one.
func (r *Report) QualifiedName() string {
	return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

// String returns the finding as one line.
func (f Finding) String() string {
	if f.Field == "" {
		return f.Message
	}

	return f.Field + ": " + f.Message
}
