package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// deploymentTemplate is the part of a page about MachineDeployments.
const deploymentTemplate = `
{{if .Deployments}}
{{.Deployed}}
{{range .Deployments}}{{with .Cause}}
CAUSE {{.Reason}}
{{end}}MachineDeployment	{{.Namespace}}/{{.Name}}: {{.Machines}} of {{count .Replicas "Machine"}}
{{with .Cause}}message	{{.Message}}
remedy	{{.Remedy}}
{{with .Retry}}retry	{{.When}}
		{{.Command}}{{end}}
see	` + docsURL + `diagnose.md#machinedeployments
{{end}}{{end}}{{end}}
{{range .Unread}}not read	{{.}}
{{end}}`

// summaryTemplate is the text output for all Machines, below a table with a line for each of them. It is to be
// formatted by layout.
const summaryTemplate = deploymentTemplate + `
{{range .Problems}}
{{if eq .Result "Suspected"}}SUSPECTED CAUSE {{.Reason}}{{else if eq .Result "Unknown"}}NOT DIAGNOSED{{else}}CAUSE {{.Reason}}{{end}}, {{count (len .Machines) "Machine"}}
Machines	{{join .Machines ", "}}
message	{{.Message}}{{if gt (len .Machines) 1}} (of {{index .Machines 0}}){{end}}
remedy	{{.Remedy}}
{{with .Retry}}retry	{{.When}}
		{{.Command}}{{end}}
{{with .Reason}}see	` + troubleshootingURL + `
	row {{.}}{{end}}
{{end}}
{{if .Problems}}
NEXT
evidence		{{.Evidence}}
{{end}}
ASSUMPTIONS
flags	{{settings}}
	if the machine controller runs with other values, pass them to this command too
`

// printSummary prints a line for each machine, and then each cause once.
func (d *diagnoses) printSummary(out io.Writer, settings string) error {
	on := terminalOf(out)

	if _, err := io.WriteString(out, d.table(on)); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	return printPage(out, outputText, d, summaryTemplate, map[string]any{"settings": func() string { return settings }})
}

// severity orders the results: causes come first.
var severity = []result{resultCauseFound, resultUnknown, resultSuspected, resultNothingWrong}

// table returns a line for each machine.
func (d *diagnoses) table(on terminal) string {
	if len(d.Machines) == 0 {
		return ""
	}

	machines := slices.Clone(d.Machines)
	slices.SortStableFunc(machines, func(a, b diagnosis) int {
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

		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", machines[i].Name, phase, machines[i].Result, machines[i].inShort())
	}

	_ = columns.Flush() // A strings.Builder never fails.

	var lines strings.Builder
	for line := range strings.Lines(table.String()) {
		lines.WriteString(cut(strings.TrimSpace(line), on.pageWidth()) + "\n")
	}

	return lines.String() + "\n"
}

// inShort returns the cause, or the step that the machine waits for.
func (d *diagnosis) inShort() string {
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
	Result   result
	Reason   string
	Machines []string
	// Message and Remedy are those of the first machine.
	Message, Remedy string
	Retry           *retryHint
}

// Problems returns the causes of all machines, each once.
func (d *diagnoses) Problems() []problem {
	var list []problem

	for i := range d.Machines {
		m := &d.Machines[i]

		for _, p := range m.problems() {
			at := slices.IndexFunc(list, func(other problem) bool {
				return other.Result == p.Result && other.Reason == p.Reason && p.Reason != ""
			})
			if at < 0 {
				at = len(list)
				list = append(list, p)
			}

			list[at].Machines = append(list[at].Machines, m.Name)
		}
	}

	slices.SortStableFunc(list, func(a, b problem) int {
		return cmp.Compare(slices.Index(severity, a.Result), slices.Index(severity, b.Result))
	})

	return list
}

// problems returns the causes of a machine, without its name.
func (d *diagnosis) problems() []problem {
	if d.Error != "" {
		return []problem{{Result: resultUnknown, Message: d.Error}}
	}

	if d.Cause == nil {
		return nil
	}

	var list []problem
	for _, c := range d.Causes() {
		list = append(list, problem{Result: d.Result, Reason: c.Reason, Message: c.Message, Remedy: c.Remedy, Retry: c.Retry})
	}

	return list
}

// Evidence returns the command that shows the evidence for a cause.
func (d *diagnoses) Evidence() string {
	for i := range d.Machines {
		if m := &d.Machines[i]; m.Cause != nil && m.Machine != nil {
			return "mcm-kubevirt diagnose --namespace=" + m.Machine.Namespace + " " + m.Name + ", or --all --details"
		}
	}

	return "mcm-kubevirt diagnose --all --details"
}
