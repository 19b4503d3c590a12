// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// Selector is the output of test/lab/modules/prometheus/cmd/promql for an expression.
type Selector struct {
	From, Metric string
	Labels       []string
	Values       map[string]string
}

// EvaluateMonitoring builds an overlay and returns the selectors of its expressions.
func EvaluateMonitoring(t *testing.T, overlay string) []Selector {
	t.Helper()

	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, manifests.Manifests))

	objects, err := exec.CommandContext(t.Context(), lab.Binaries.Kubectl, "kustomize", filepath.Join(folder, overlay)).Output()
	require.NoError(t, err)

	var selectors []Selector

	evaluate(t, objects, &selectors)

	return selectors
}

// FiringAlerts evaluates the cases of a file with alerts of PrometheusRules. For each case, it returns the descriptions of the
// firing alerts.
func FiringAlerts(t *testing.T, objects []byte, file string) [][]string {
	t.Helper()

	var descriptions [][]string

	evaluate(t, objects, &descriptions, file)

	return descriptions
}

func evaluate(t *testing.T, objects []byte, result any, args ...string) {
	t.Helper()

	var complaint bytes.Buffer

	command := exec.CommandContext(t.Context(), lab.Binaries.PromQL, args...)
	command.Stdin = bytes.NewReader(objects)
	command.Stderr = &complaint
	out, err := command.Output()
	require.NoError(t, err, "%s", complaint.String())
	require.NoError(t, json.Unmarshal(out, result))
}
