package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// report is the output of validate. Scripts depend on it: fields may be added, but never change.
type report struct {
	// Classes are all MachineClasses, including those without errors.
	Classes []classReport `json:"classes"`
	// Deployments are all MachineDeployments.
	Deployments []classReport `json:"machineDeployments,omitempty"`
	// Unreadable are the errors for files, or parts of them, that
	// are not manifests. Each counts as an error.
	Unreadable []fileError `json:"unreadable,omitempty"`
	// Skipped counts the objects of other kinds.
	Skipped  int `json:"passedOver"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	// Accepted counts the warnings about fields in --accept.
	Accepted int `json:"accepted,omitempty"`
	// Unused are the fields in --accept without a warning. They are unknown if there are errors, which hide warnings.
	Unused []string `json:"unusedAccept,omitempty"`
}

// classReport is the report on one MachineClass or MachineDeployment.
type classReport struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	File      string    `json:"file"`
	Line      int       `json:"line"`
	Errors    []finding `json:"errors"`
	Warnings  []finding `json:"warnings"`

	// userData is the Secret with the user data.
	userData origin
}

// finding is an error or a warning. Its field is empty if it is about the manifest as a whole.
type finding struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	// Line is the line of the field in the file or, if it is missing, of the object that lacks it; zero if it
	// is unknown.
	Line int `json:"line,omitempty"`
	// File is the file of the line, if it is a line of the Secret with the user data.
	File string `json:"file,omitempty"`
}

func newClassReport(d document, object *metav1.ObjectMeta) classReport {
	return classReport{Name: object.Name, Namespace: object.Namespace, File: d.file, Line: d.line, Errors: []finding{}, Warnings: []finding{}}
}

func (r *classReport) fail(path, message string) {
	r.Errors = append(r.Errors, finding{Field: path, Message: message})
}

func (r *classReport) warn(path, message string) {
	r.Warnings = append(r.Warnings, finding{Field: path, Message: message})
}

func (r *classReport) addErrors(errs field.ErrorList) {
	for _, err := range errs {
		r.fail(err.Field, err.ErrorBody())
	}
}

func (r *classReport) addWarnings(warnings []validation.Warning) {
	for _, w := range warnings {
		r.warn(w.Field, w.Detail)
	}
}

// sorted sorts the findings and removes duplicates. Those about the whole manifest come first.
// Without sorting, the order of some is random.
func (r *classReport) sorted() classReport {
	for _, list := range []*[]finding{&r.Errors, &r.Warnings} {
		slices.SortStableFunc(*list, func(a, b finding) int {
			return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
		})

		*list = slices.Compact(*list)
	}

	return *r
}

// addLines sets the lines of the findings.
func (r *classReport) addLines(lines fieldLines) {
	for _, list := range [][]finding{r.Errors, r.Warnings} {
		for i := range list {
			switch f := &list[i]; {
			case f.Field == apiv1alpha1.SecretKeyUserData:
				f.File = r.userData.file
				f.Line = r.userData.line
			case f.Field != "":
				f.Line = lines.line(f.Field)
			}
		}
	}
}

// accept removes the warnings about accepted fields, and counts them.
func (r *report) accept(fields []string) {
	for _, accepted := range slices.Compact(slices.Sorted(slices.Values(fields))) {
		before := r.Warnings

		for _, list := range [][]classReport{r.Classes, r.Deployments} {
			for i := range list {
				r.Warnings -= len(list[i].Warnings)
				list[i].Warnings = slices.DeleteFunc(list[i].Warnings, func(f finding) bool { return f.Field == accepted })
				r.Warnings += len(list[i].Warnings)
			}
		}

		r.Accepted += before - r.Warnings

		if r.Warnings == before && r.Errors == 0 {
			r.Unused = append(r.Unused, accepted)
		}
	}
}

// sharedWarnings are warnings that several MachineClasses have.
type sharedWarnings struct {
	// Names are the MachineClasses.
	Names    []string
	Warnings []finding
}

// Shared returns the warnings that several MachineClasses have, by the MachineClasses.
func (r *report) Shared() []sharedWarnings {
	var (
		all   []finding
		names = map[finding][]string{}
	)

	for i := range r.Classes {
		for _, w := range r.Classes[i].Warnings {
			w.Line = 0
			if names[w] == nil {
				all = append(all, w)
			}

			if name := r.Classes[i].QualifiedName(); !slices.Contains(names[w], name) {
				names[w] = append(names[w], name)
			}
		}
	}

	var shared []sharedWarnings

	for _, w := range all {
		if len(names[w]) == 1 {
			continue
		}

		at := slices.IndexFunc(shared, func(s sharedWarnings) bool { return slices.Equal(s.Names, names[w]) })
		if at < 0 {
			at = len(shared)
			shared = append(shared, sharedWarnings{Names: names[w]})
		}

		shared[at].Warnings = append(shared[at].Warnings, w)
	}

	return shared
}

// ownWarnings returns the warnings of the MachineClass without the shared ones.
func ownWarnings(r *classReport, shared []sharedWarnings) []finding {
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(w finding) bool {
		w.Line = 0

		return slices.ContainsFunc(shared, func(s sharedWarnings) bool { return slices.Contains(s.Warnings, w) })
	})
}

// InFile returns the finding as one line, with its line in the file.
func (f finding) InFile() string {
	switch {
	case f.Line == 0:
		return f.String()
	case f.File != "":
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f)
	}

	return fmt.Sprintf("line %d: %s", f.Line, f)
}

// unreadableText is the part of a text about files that are not manifests.
const unreadableText = `{{range .Unreadable}}{{.File}}
  {{level "error"}} {{hang 11 .Message}}

{{end}}`

const reportText = unreadableText + `{{$shared := .Shared}}{{range $shared}}MachineClasses {{join .Names ", "}}
{{range .Warnings}}  {{level "warning"}} {{hang 11 .String}}
{{end}}
{{end}}{{range .Classes}}MachineClass {{.QualifiedName}} ({{.File}}:{{.Line}})
{{range .Errors}}  {{level "error"}} {{hang 11 .InFile}}
{{end}}{{$own := own . $shared}}{{range $own}}  {{level "warning"}} {{hang 11 .InFile}}
{{end}}{{if not (or .Errors $own)}}  no errors, {{if .Warnings}}and only warnings that other MachineClasses share{{else}}no warnings{{end}}
{{end}}
{{end}}{{range .Deployments}}MachineDeployment {{.QualifiedName}} ({{.File}}:{{.Line}})
{{range .Errors}}  {{level "error"}} {{hang 11 .InFile}}
{{end}}{{range .Warnings}}  {{level "warning"}} {{hang 11 .InFile}}
{{end}}{{if not (or .Errors .Warnings)}}  no errors, no warnings
{{end}}
{{end}}{{count (len .Classes) "MachineClass"}}{{with .Deployments}}, {{count (len .) "MachineDeployment"}}{{end}}
{{- /**/}}, {{count .Errors "error"}}, {{count .Warnings "warning"}}{{with .Accepted}} ({{.}} more accepted){{end}}; objects of other kinds: {{.Skipped}}
{{range .Unused}}--accept={{.}}: no warning is about this field; remove it, or correct its name
{{end}}`

// QualifiedName returns the name with its namespace, if there is one.
func (r *classReport) QualifiedName() string {
	return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

// String returns the finding as one line.
func (f finding) String() string {
	if f.Field == "" {
		return f.Message
	}

	return f.Field + ": " + f.Message
}
