// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

var (
	severity = regexp.MustCompile(`severity: (\w+)|labels: \*(\w+)`)
	runbook  = regexp.MustCompile(`runbook_url: (\S+)`)
)

// TestCharts_AlertsInDocs writes the alerts of all charts into the page on operations, to which they lead.
func TestCharts_AlertsInDocs(t *testing.T) {
	t.Parallel()

	const (
		page   = "extension/docs/operations/deployment.md"
		target = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/" + page + "#"
	)

	var rows [][]string

	for _, alert := range alertsIn(t, charts.Installation, charts.Internal) {
		name, _, _ := strings.Cut(alert, "\n")
		anchor := strings.ToLower(name)

		found := severity.FindStringSubmatch(alert)
		require.NotNil(t, found, name)

		url := runbook.FindStringSubmatch(alert)
		require.NotNil(t, url, name)
		require.Equal(t, target+anchor, url[1], "it leads to the row")

		rows = append(rows, []string{`<a id="` + anchor + "\"></a>`" + name + "`", found[1] + found[2], docs.Kept})
	}

	docs.RequireTable(t, page, "alerts", []string{"alert", "severity", "action"}, rows)
}

// alertsIn returns the texts of the alerts in charts, which begin with their names.
func alertsIn(t *testing.T, folders ...embed.FS) (alerts []string) {
	t.Helper()

	for _, folder := range folders {
		require.NoError(t, fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}

			content, err := folder.ReadFile(path)
			alerts = append(alerts, strings.Split(string(content), "- alert: ")[1:]...)

			return err
		}))
	}

	return alerts
}
