// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// extensionURL has a section for each of Gardener's error codes.
const extensionURL = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/extension/docs/usage/troubleshooting.md"

// shootTemplate is the text output of diagnose --shoot.
const shootTemplate = `
Shoot {{.Shoot}}{{if .SeedName}} on seed {{.SeedName}}{{end}}
{{range .Links}}{{.Kind}}	{{with .Name}}{{.}}: {{end}}{{.State}}{{with .Updated}}, {{ago .}}{{end}}
{{end}}
{{range .Rotations}}rotation	{{.}}
{{end}}
{{if .Machines}}Machines	{{count (len .Machines) "Machine"}}, {{with affected .}}{{.}} with a cause{{else}}none with a cause{{end}}{{end}}
{{with .Volumes}}volumes	{{.Count}}, {{len .Incomplete}} incomplete
{{range .Incomplete}}	{{.Name}}: {{.State}}
{{end}}{{end}}
{{range .Unread}}not read	{{.}}
{{end}}
{{if not .Cause}}
{{if eq .Result "Unknown"}}NOT DIAGNOSED COMPLETELY{{else}}NO CAUSE FOUND{{end}}
status	{{.WaitingFor}}
{{else}}
{{$result := .Result}}
{{range $i, $c := .Causes}}
{{if eq $result "Suspected"}}SUSPECTED {{end}}{{if eq $i 0}}FIRST CAUSE{{else}}ALSO REPORTED{{end}} {{.Reason}}
reported by	{{.Link}}
message	{{.Message}}
codes	{{join .Codes ", "}}
{{if eq $i 0}}remedy	{{.Remedy}}
{{with .Since}}since	{{ago .}}{{end}}
{{with .Retry}}{{template "retry" .}}{{end}}
see	{{url $c}}
{{end}}{{end}}
{{end}}
{{with .Next}}
NEXT
{{if $.Cause}}evidence{{else}}look further{{end}}		{{.}}
{{end}}
{{template "assumptions"}}`

// affected returns the number of Machines with a cause.
func affected(d *diagnosis.Shoot) int {
	n := 0

	for i := range d.Machines {
		if d.Machines[i].Result == diagnosis.ResultCauseFound {
			n++
		}
	}

	return n
}

// urlOf returns the page with the remedy of a cause.
func urlOf(c *diagnosis.ShootCause) string {
	switch {
	case !slices.Contains(diagnosis.ShootReasons, c.Reason):
		return output.TroubleshootingURL + " row " + c.Reason
	case len(c.Codes) > 0:
		return extensionURL + "#" + strings.ToLower(c.Codes[0])
	default:
		return output.DocsURL + "troubleshooting.md#shoots"
	}
}
