// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// deploymentTemplate is the part of a page about MachineDeployments.
const deploymentTemplate = `
{{if .Deployments}}
{{deployed .Deployments}}
{{range .Deployments}}{{with .Cause}}
CAUSE {{.Reason}}
{{end}}MachineDeployment	{{.Namespace}}/{{.Name}}: {{.Machines}} of {{count .Replicas "Machine"}}
{{with .Cause}}message	{{.Message}}
remedy	{{.Remedy}}
{{with .Retry}}{{template "retry" .}}{{end}}
see	` + output.DocsURL + `troubleshooting.md#machinedeployments
{{end}}{{end}}{{end}}
{{range .Unread}}not read	{{.}}
{{end}}`

// summaryTemplate is the text output for all Machines, below a table with a line for each of them.
const summaryTemplate = deploymentTemplate + `
{{$problems := problems .}}
{{range $problems}}
{{if eq .Result "Suspected"}}SUSPECTED CAUSE {{.Reason}}{{else if eq .Result "Unknown"}}NOT DIAGNOSED{{else}}CAUSE {{.Reason}}{{end}}, {{count (len .Machines) "Machine"}}
Machines	{{join .Machines ", "}}
{{$of := ""}}{{if gt (len .Machines) 1}}{{$of = printf " (of %s)" (index .Machines 0)}}{{end}}
message	{{.Message}}{{$of}}
{{if not .Named}}{{$of = ""}}{{end}}
{{with .Remedy}}remedy	{{.}}{{$of}}{{end}}
{{with .Retry}}retry	{{.When}}{{$of}}
		{{.Command}}{{end}}
{{with .Reason}}see	` + output.TroubleshootingURL + `
	row {{.}}{{end}}
{{end}}
{{if $problems}}
NEXT
evidence		{{evidence .}}
{{end}}
{{template "assumptions"}}`

// printSummary prints a line for each machine, and then each cause once.
func printSummary(out io.Writer, d *diagnosis.Report, settings string) error {
	if _, err := io.WriteString(out, table(d, output.Width(out))); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return page(summaryTemplate, settings, time.Now()).Write(out, d)
}

// severity orders the results: causes come first.
var severity = []diagnosis.Result{diagnosis.ResultCauseFound, diagnosis.ResultUnknown, diagnosis.ResultSuspected, diagnosis.ResultNothingWrong}

// table returns a line for each machine.
func table(d *diagnosis.Report, width int) string {
	if len(d.Machines) == 0 {
		return ""
	}

	machines := slices.Clone(d.Machines)
	slices.SortStableFunc(machines, func(a, b diagnosis.Machine) int {
		return cmp.Compare(slices.Index(severity, a.Result), slices.Index(severity, b.Result))
	})

	var table strings.Builder

	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "MACHINE\tPHASE\tRESULT\tCAUSE")

	for i := range machines {
		phase := "-"
		if machines[i].Machine != nil {
			phase = cmp.Or(machines[i].Machine.Phase, "none")
		}

		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", nameOf(d, &machines[i]), phase, machines[i].Result, inShort(&machines[i]))
	}

	_ = columns.Flush() // A strings.Builder never fails.

	var lines strings.Builder
	for line := range strings.Lines(table.String()) {
		lines.WriteString(cut(strings.TrimSpace(line), width) + "\n")
	}

	return lines.String() + "\n"
}

// inShort returns the cause, or the step that the machine waits for.
func inShort(d *diagnosis.Machine) string {
	switch {
	case d.Error != "":
		return d.Error
	case d.Cause != nil:
		return d.Cause.Reason + ": " + d.Cause.Message
	default:
		return d.WaitingFor
	}
}

// cut shortens a line to a number of columns.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}

	return strings.TrimSpace(string([]rune(line)[:width-1])) + "…"
}

// problem is a cause, and the machines that have it.
type problem struct {
	// Cause is that of the first machine.
	*diagnosis.Cause

	Result   diagnosis.Result
	Machines []string
	// Named is set if commands have the name of the first machine.
	Named bool

	// key is what the machines have in common: all but the message, and their names in commands.
	key string
}

// problems returns the causes of all machines, each once for all machines with the same remedy.
func problems(d *diagnosis.Report) []problem {
	var list []problem

	for i := range d.Machines {
		m := &d.Machines[i]

		for _, p := range problemsOf(m) {
			at := slices.IndexFunc(list, func(other problem) bool { return other.key == p.key && p.Reason != "" })
			if at < 0 {
				at = len(list)
				list = append(list, p)
			}

			list[at].Machines = append(list[at].Machines, nameOf(d, m))
		}
	}

	slices.SortStableFunc(list, func(a, b problem) int {
		return cmp.Compare(slices.Index(severity, a.Result), slices.Index(severity, b.Result))
	})

	return list
}

// nameOf returns the name of a machine, with its namespace if the machines are from several.
func nameOf(d *diagnosis.Report, m *diagnosis.Machine) string {
	if slices.ContainsFunc(d.Machines, func(other diagnosis.Machine) bool { return other.Namespace != m.Namespace }) {
		return m.Namespace + "/" + m.Name
	}

	return m.Name
}

// problemsOf returns the causes of a machine, without its name.
func problemsOf(d *diagnosis.Machine) []problem {
	if d.Error != "" {
		return []problem{{Result: d.Result, Cause: &diagnosis.Cause{Message: d.Error}}}
	}

	// The name follows its kind or a subcommand of virtctl. Elsewhere, a word may only look like it, such as a zone.
	inCommand := regexp.MustCompile(`( machine| vm| start| datavolume) ` + regexp.QuoteMeta(d.Name) + `(\W|$)`)

	var list []problem

	for _, c := range d.Causes() {
		common := fmt.Sprintln(d.Result, c.Reason, c.Remedy, ptr.Deref(c.Retry, diagnosis.Retry{}))
		key := inCommand.ReplaceAllString(common, "$1 NAME$2")
		list = append(list, problem{Cause: c, Result: d.Result, Named: key != common, key: key})
	}

	return list
}

// evidenceCommand returns the command that shows the evidence for a cause.
func evidenceCommand(d *diagnosis.Report) string {
	for i := range d.Machines {
		if m := &d.Machines[i]; m.Cause != nil && m.Machine != nil {
			return "mcm-kubevirt diagnose --namespace=" + m.Machine.Namespace + " " + m.Name + ", or --all --details"
		}
	}

	return "mcm-kubevirt diagnose --all --details"
}
