// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"slices"
	"text/template"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// Report is the output of validate. Scripts depend on it: fields may be added, but never change.
type Report struct {
	// Classes are all MachineClasses, including those without errors.
	Classes []manifests.Report `json:"classes"`
	// Deployments are all MachineDeployments.
	Deployments []manifests.Report `json:"machineDeployments,omitempty"`
	// Unreadable are the errors for files, or parts of them, that
	// are not manifests. Each counts as an error.
	Unreadable []manifests.FileError `json:"unreadable,omitempty"`
	// Skipped counts the objects of other kinds.
	Skipped  int `json:"passedOver"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	// Accepted counts the warnings about fields in --accept.
	Accepted int `json:"accepted,omitempty"`
	// Unused are the fields in --accept without a warning. They are unknown if there are errors, which hide warnings.
	Unused []string `json:"unusedAccept,omitempty"`
}

// accept removes the warnings about accepted fields, and counts them.
func (r *Report) accept(fields []string) {
	for _, accepted := range slices.Compact(slices.Sorted(slices.Values(fields))) {
		before := r.Warnings

		for _, list := range [][]manifests.Report{r.Classes, r.Deployments} {
			for i := range list {
				r.Warnings -= len(list[i].Warnings)
				list[i].Warnings = slices.DeleteFunc(list[i].Warnings, func(f manifests.Finding) bool { return f.Field == accepted })
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
	Warnings []manifests.Finding
}

// Shared returns the warnings that several MachineClasses have, by the MachineClasses.
func (r *Report) Shared() []sharedWarnings {
	var (
		all   []manifests.Finding
		names = map[manifests.Finding][]string{}
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
func ownWarnings(r *manifests.Report, shared []sharedWarnings) []manifests.Finding {
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(w manifests.Finding) bool {
		w.Line = 0

		return slices.ContainsFunc(shared, func(s sharedWarnings) bool { return slices.Contains(s.Warnings, w) })
	})
}

// page is the text output.
var page = output.Page{Funcs: template.FuncMap{"own": ownWarnings}, Template: manifests.UnreadableText + `{{$shared := .Shared}}{{range $shared}}MachineClasses {{join .Names ", "}}
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
{{end}}`}
