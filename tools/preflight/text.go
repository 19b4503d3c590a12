// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"slices"
	"strings"
	"text/template"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// report is the output of preflight. Scripts depend on
// it: fields may be added, but never change.
type report struct {
	// Assumptions are the assumed flags of the machine controller that the results depend on.
	Assumptions []string `json:"assumptions"`
	// Unreadable are the errors for files, or parts of them, that
	// are not manifests. Each counts as an error.
	Unreadable []manifests.FileError `json:"unreadable,omitempty"`
	// Clusters has one report for each provider cluster and namespace.
	Clusters []*checks.Report `json:"providerClusters"`
	OK       int              `json:"ok"`
	Warnings int              `json:"warnings"`
	Errors   int              `json:"errors"`
}

func (r *report) count() {
	r.Errors = len(r.Unreadable)

	for _, cluster := range r.Clusters {
		for _, result := range cluster.Results {
			switch result.Level {
			case checks.Error:
				r.Errors++
			case checks.Warning:
				r.Warnings++
			default:
				r.OK++
			}
		}
	}
}

// bySeverity returns the report with the errors of each provider cluster first, then the warnings and, if all
// are wanted, what is ok.
func (r *report) bySeverity(all bool) *report {
	severity := []checks.Level{checks.Error, checks.Warning, checks.OK}
	clusters := make([]*checks.Report, len(r.Clusters))

	for i, c := range r.Clusters {
		cluster := *c
		cluster.Results = slices.DeleteFunc(slices.Clone(c.Results), func(r checks.Result) bool { return r.Level == checks.OK && !all })
		slices.SortStableFunc(cluster.Results, func(a, b checks.Result) int {
			return cmp.Compare(slices.Index(severity, a.Level), slices.Index(severity, b.Level))
		})
		clusters[i] = &cluster
	}

	shown := *r
	shown.Clusters = clusters

	return &shown
}

// page is the text output.
var page = output.Page{Funcs: template.FuncMap{"repeated": repeated, "about": about}, Template: `Assuming that the machine controller runs with {{join .Assumptions " and "}}; if its flags differ, pass them to this command too

` + manifests.UnreadableText + `{{range $cluster := .Clusters}}
{{- if .Server}}Provider cluster {{.Server}}, namespace {{.Namespace}}
{{end}}
{{- range .Identities}}  identity {{printf "%-7s" .Name}} {{or .User "an unknown user"}}, from {{.From}}
{{end}}
{{- range $i, $result := .Results}}  {{level .Level}} {{printf "%-7s %-19s" .Identity .Check}} {{hang 39 (about .)}}
{{if .Remedy}}{{printf "%47s" "remedy: "}}{{if repeated $cluster $i}}same as above{{else}}{{.Remedy}}{{end}}
{{end}}
{{- end}}
{{end}}{{.OK}} ok, {{count .Warnings "warning"}}, {{count .Errors "error"}}
`}

// about returns the subject and the message of a result, and the MachineClasses that it is about.
func about(r checks.Result) string {
	text := r.Subject + ": " + r.Message

	switch {
	case len(r.Classes) > 0:
		return text + " (MachineClasses " + strings.Join(r.Classes, ", ") + ")"
	case r.Class != "" && r.Subject != "MachineClass "+r.Class:
		return text + " (MachineClass " + r.Class + ")"
	default:
		return text
	}
}

// repeated reports whether an earlier result of the cluster has the same remedy.
func repeated(cluster *checks.Report, i int) bool {
	return slices.ContainsFunc(cluster.Results[:i], func(earlier checks.Result) bool { return earlier.Remedy == cluster.Results[i].Remedy })
}
