package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// extensionURL has a section for each of Gardener's error codes.
const extensionURL = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/extension/docs/troubleshooting.md"

// shootTemplate is the text output of diagnose --shoot, to be formatted by layout.
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
{{with .Retry}}retry	{{.When}}
		{{.Command}}{{end}}
see	{{page $c}}
{{end}}{{end}}
{{end}}
{{with .Next}}
NEXT
{{if $.Cause}}evidence{{else}}look further{{end}}		{{.}}
{{end}}
ASSUMPTIONS
flags	{{settings}}
	if the machine controller runs with other values, pass them to this command too
`

// printShoot prints the diagnosis in the given format.
func printShoot(out io.Writer, d *shootDiagnosis, format, settings string, now time.Time) error {
	ago := func(t time.Time) string {
		return fmt.Sprintf("%s ago (%s)", duration.HumanDuration(max(0, now.Sub(t))), t.UTC().Format(time.RFC3339))
	}

	return printPage(out, format, d, shootTemplate, template.FuncMap{
		"settings": func() string { return settings }, "ago": ago, "page": pageOf, "affected": affected,
	})
}

// affected returns the number of Machines with a cause.
func affected(d *shootDiagnosis) int {
	n := 0

	for i := range d.Machines {
		if d.Machines[i].Result == resultCauseFound {
			n++
		}
	}

	return n
}

// pageOf returns the page with the remedy of a cause.
func pageOf(c *shootCause) string {
	switch {
	case !slices.Contains(shootReasons, c.Reason):
		return troubleshootingURL + " row " + c.Reason
	case len(c.Codes) > 0:
		return extensionURL + "#" + strings.ToLower(c.Codes[0])
	default:
		return docsURL + "diagnose.md#shoots"
	}
}
