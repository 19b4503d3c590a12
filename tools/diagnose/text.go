// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// deployed describes the MachineDeployments without Machines.
func deployed(deployments []diagnosis.Deployment) string {
	wanted := 0
	existing := 0

	for _, of := range deployments {
		wanted += of.Replicas
		existing += of.Machines
	}

	exist := fmt.Sprintf("%d exist", existing)
	if existing == 0 {
		exist = "none exists"
	}

	verb := "want"
	if len(deployments) == 1 {
		verb = "wants"
	}

	return fmt.Sprintf("%s %s %s, %s", output.Count(len(deployments), "MachineDeployment"), verb, output.Count(wanted, "Machine"), exist)
}

// sharedTemplate has the parts of all texts.
const sharedTemplate = `
{{define "retry"}}retry	{{.When}}
		{{.Command}}{{end}}
{{define "assumptions"}}
ASSUMPTIONS
flags	{{settings}}
	if the machine controller runs with other values, pass them to this command too
{{end}}`

// machinesTemplate is the text output for Machines.
const machinesTemplate = deploymentTemplate + `
{{define "sign"}}{{.Object.Kind}} {{.Object.Namespace}}/{{.Object.Name}}
{{if .Last}}	{{.Type}} {{.Status}} {{.Reason}}, first {{ago .Since}}, last {{age .Last}} ago
{{else}}	{{.Type}}={{.Status}} {{.Reason}}, for {{age .Since}} (since {{stamp .Since}})
{{end}}	{{.Message}}
{{end}}
{{range $d := .Machines}}
{{$stage := ""}}{{with .Provider}}{{$stage = .Stage}}{{end}}
Machine {{.Name}}{{with .Machine}} in namespace {{.Namespace}}
phase	{{or .Phase "none"}}{{with .PhaseSince}} for {{age .}}{{end}}
class	{{.Namespace}}/{{.Class}}
created	{{ago .Created}}
{{with .Deleted}}deleted	{{ago .}}{{end}}
{{with .LastOperation}}last operation	{{.Type}} {{.State}} {{.Code}} {{ago .Updated}}
	{{.Description}}{{end}}
{{with .NodeReady}}node	Ready={{.Status}} {{.Reason}}, for {{age .Since}}{{end}}
{{else}}
{{if not .Error}}machine	there is no Machine with this name; the VirtualMachine with this name is diagnosed{{end}}
{{end}}
{{with .Control}}
CONTROL CLUSTER, namespace {{$d.Machine.Namespace}}
{{range .Controllers}}controller	{{.Name}}:
{{- if eq .State "Running"}} running, lease renewed {{age .Renewed}} ago by {{.Holder}}
{{else if eq .State "Unknown"}} unknown, {{.Note}}
{{else if .Renewed}} NOT RUNNING, lease renewed {{ago .Renewed}} by {{or .Holder "none"}}
{{else}} NOT RUNNING, its lease has no holder
{{end}}{{end}}
{{range .Secrets}}Secret	{{.Namespace}}/{{.Name}}:
{{- if .Keys}} found, keys {{join .Keys ", "}}
{{else if eq .State "Found"}} found, but it contains none of the driver's keys
{{else if eq .State "Missing"}} NOT FOUND
{{else if eq .State "OtherNamespace"}} NOT VISIBLE to machine-controller-manager, which reads Secrets only in namespace {{$d.Machine.Namespace}}
{{else}} not read: {{printable .Err.Error}}
{{end}}{{end}}
last update	{{with .LastUpdate}}a controller updated the Machine's status {{ago .}}
{{else}}none: no controller has updated the Machine's status{{end}}
{{end}}
{{with $provider := .Provider}}
PROVIDER CLUSTER {{.Server}}, namespace {{.Namespace}}
{{range .Objects}}{{or .Role .Kind}}	{{if ne .Namespace $provider.Namespace}}{{.Namespace}}/{{end}}{{.Name}}: {{or .State "none"}}, {{age .Created}} old{{with .Deleted}}, being deleted for {{age .}}{{end}}
{{else}}	no object of the machine was found
{{end}}
{{range .Unread}}not read	{{.}}
{{end}}
{{end}}
{{if .Error}}
NOT DIAGNOSED
reason	{{.Error}}
{{else if not .Cause}}
NO CAUSE FOUND
status	{{.WaitingFor}}
{{else}}
{{range .Causes}}
{{if eq $d.Result "Suspected"}}SUSPECTED {{end}}CAUSE {{.Reason}}
message	{{.Message}}
remedy	{{.Remedy}}
machine code	{{or .Code "none"}}
{{- if not .Code}}: the driver is not called
{{- else if or (eq .Reason "` + kubevirt.TokenVanished + `") (eq $stage "Scheduled")}}, not reported by the driver:
{{- " machine-controller-manager monitors the Node of a scheduled machine instead"}}
{{- else if eq $d.Result "Suspected"}}, not yet reported by the driver
{{- else}}, reported by the driver{{end}}
{{with .Since}}since	{{ago .}}{{end}}
{{- if and .Since .Reported}}{{if .Reported.After .Since}}; the driver reports such a failure after {{between .Since .Reported}}
{{- if .Reported.After now}}, which is in {{between now .Reported}}{{end}}{{end}}{{end}}
{{with .Retry}}{{template "retry" .}}{{else}}retry	machine-controller-manager does not retry: there is no Machine{{end}}
{{with $d.WaitingFor}}status	{{.}}{{end}}
see	` + output.TroubleshootingURL + `
	row {{.Reason}}
{{end}}
{{end}}
{{if or .Cause .Evidence}}
EVIDENCE
{{with .Cause}}based on	{{if .Evidence}}{{template "sign" .Evidence}}
{{- else if isControl .Reason}}the state of the control cluster, see above
{{- else if eq .Reason "` + kubevirt.TokenVanished + `"}}the Machine's spec.providerID, which is set when the machine is scheduled on a provider node
{{- else if eq $stage "Absent"}}the dry run of the machine's creation
{{- else}}the response to a request{{end}}{{end}}
{{range otherEvidence $d}}also reported	{{template "sign" .}}{{end}}
{{end}}
{{end}}
{{template "assumptions"}}`

// page returns the text output of a template. It includes the settings that the diagnosis is based on.
func page(text, settings string, now time.Time) output.Page {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	age := func(t time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) } // like kubectl

	return output.Page{Columns: true, Template: sharedTemplate + text, Funcs: template.FuncMap{
		"affected":      affected,
		"age":           age,
		"ago":           func(t time.Time) string { return fmt.Sprintf("%s ago (%s)", age(t), stamp(t)) },
		"between":       func(from, to time.Time) string { return duration.HumanDuration(to.Sub(from)) },
		"deployed":      deployed,
		"evidence":      evidenceCommand,
		"isControl":     isControl,
		"now":           func() time.Time { return now },
		"otherEvidence": otherEvidence,
		"problems":      problems,
		"settings":      func() string { return settings },
		"stamp":         stamp,
		"url":           urlOf,
	}}
}

// isControl reports whether a cause is in the control cluster.
func isControl(reason string) bool {
	_, found := kubevirt.ControlTokens()[reason]

	return found
}

// otherEvidence returns the evidence that the cause is not based on.
func otherEvidence(d diagnosis.Machine) []spi.Sign {
	if d.Cause == nil || d.Cause.Evidence == nil {
		return d.Evidence
	}

	return slices.DeleteFunc(slices.Clone(d.Evidence), func(s spi.Sign) bool {
		basis := d.Cause.Evidence

		return s.Object == basis.Object && s.Type == basis.Type && s.Reason == basis.Reason && s.Since.Equal(basis.Since)
	})
}
