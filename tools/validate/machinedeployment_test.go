// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// deployment is a MachineDeployment without errors.
const deployment = `apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineDeployment
metadata: {name: pool, namespace: ns}
spec:
  replicas: 2
  selector: {matchLabels: {name: pool}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {name: pool}}
    spec: {class: {kind: MachineClass, name: c}}
`

// TestNewCommand_InvalidDeployment validates MachineDeployments that machine-controller-manager only
// logs and ignores.
func TestNewCommand_InvalidDeployment(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		old, new string
		want     string
	}{
		"NoStrategy":     {reason: "apps/v1 has a default", old: "strategy: {type", new: "# {type", want: "spec.strategy.type: Required value: set it to RollingUpdate"},
		"WrongStrategy":  {reason: "a typo", old: "type: RollingUpdate", new: "type: Rolling", want: `spec.strategy.type: Invalid value: "Rolling": strategy type must be one of`},
		"NoParameters":   {reason: "they have no default", old: ", rollingUpdate: {maxSurge: 1, maxUnavailable: 0}", new: "", want: "spec.strategy.rollingUpdate: Required value"},
		"NoSelector":     {reason: "machine-controller-manager does not expect it", old: "selector: {matchLabels: {name: pool}}", new: "paused: false", want: "spec.selector: Required value"},
		"EmptySelector":  {reason: "it would select all", old: "{matchLabels: {name: pool}}", new: "{}", want: "spec.selector: Required value"},
		"OtherLabels":    {reason: "they must match", old: "labels: {name: pool}", new: "labels: {name: loop}", want: `spec.selector: Invalid value: "name=pool": must match spec.template.metadata.labels`},
		"NoKind":         {reason: "it has no default", old: "kind: MachineClass, name", new: "name", want: "spec.template.spec.class.kind: Required value"},
		"OtherKind":      {reason: "the kinds of old providers", old: "kind: MachineClass, name", new: "kind: AWSMachineClass, name", want: `spec.template.spec.class.kind: Unsupported value: "AWSMachineClass"`},
		"NoClass":        {reason: "it has no default", old: ", name: c}", new: "}", want: "spec.template.spec.class.name: Required value"},
		"UnknownField":   {reason: "the API server drops it", old: "replicas: 2", new: "replica: 2", want: "spec.replica: Forbidden"},
		"WrongGroup":     {reason: "it has no MachineDeployments", old: "machine.sapcloud.io/v1alpha1", new: "apps/v1", want: `apiVersion: Unsupported value: "apps/v1"`},
		"WrongVersion":   {reason: "the API server does not know it", old: "sapcloud.io/v1alpha1", new: "sapcloud.io/v1", want: `apiVersion: Unsupported value: "machine.sapcloud.io/v1"`},
		"NoName":         {reason: "the API server refuses it", old: "name: pool, namespace", new: "namespace", want: "metadata.name: Required value: set the name of the MachineDeployment"},
		"InvalidName":    {reason: "the API server refuses it", old: "name: pool, namespace", new: "name: Pool, namespace", want: "metadata.name: Invalid value"},
		"NegativeNumber": {reason: "machine-controller-manager refuses it", old: "replicas: 2", new: "replicas: -2", want: "spec.replicas: Required value"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Contains(t, deployment, tc.old)

			out, err := run(t, commands.Valid+"---\n"+strings.Replace(deployment, tc.old, tc.new, 1), "validate", "-f", "-")
			require.Equal(t, output.ExitInvalid, output.ExitCode(err), out)
			require.Contains(t, out, tc.want, tc.reason)
		})
	}
}

func TestNewCommand_ValidDeployment(t *testing.T) {
	t.Parallel()

	out, err := run(t, commands.Valid+"---\n"+deployment, "validate", "-f", "-")
	require.NoError(t, err, out)
	require.Contains(t, out, "MachineDeployment ns/pool (standard input:12)\n  no errors, no warnings\n")
	require.Contains(t, out, "1 MachineClass, 1 MachineDeployment, 0 errors")

	out, err = run(t, deployment, "validate", "-f", "-", "-o", "json")
	require.NoError(t, err, "a file may have only MachineDeployments")

	var got Report

	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Deployments, 1)
	require.Equal(t, []manifests.Finding{{
		Field:   "spec.template.spec.class.name",
		Line:    10,
		Message: "MachineClass c is not in the files, so it is not checked; without it, no Machine is created",
	}}, got.Deployments[0].Warnings)
}

// TestReport_Shared has two MachineClasses with the same warning.
func TestReport_Shared(t *testing.T) {
	t.Parallel()

	other := strings.NewReplacer("name: c,", "name: d,", "memory: {guest: 1Gi}", "memory: {guest: 4Ti}").Replace(commands.Valid)

	out, err := run(t, commands.Valid+"---\n"+other, "validate", "-f", "-")
	require.NoError(t, err)
	require.Contains(t, out, "MachineClasses ns/c, ns/d\n  warning  nodeTemplate: is missing")
	require.Equal(t, 1, strings.Count(out, "prevents live migration"), "it is the same for both")
	require.Contains(t, out, "MachineClass ns/c (standard input:1)\n  no errors, and only warnings that other MachineClasses share\n")
	require.Contains(t, out, "MachineClass ns/d (standard input:12)\n  warning  line 20: providerSpec.memory.guest: is 4Ti")

	out, err = run(t, commands.Valid+"---\n"+other, "validate", "-f", "-", "--accept=providerSpec.networks,nodeTemplate,secretRef")
	require.NoError(t, err)
	require.NotContains(t, out, "prevents live migration")
	require.Contains(t, out, "MachineClass ns/c (standard input:1)\n  no errors, no warnings\n")
	require.Contains(t, out, "1 warning (6 more accepted)")
}

// TestReport_Accept names fields in --accept that are misspelt or no longer needed.
func TestReport_Accept(t *testing.T) {
	t.Parallel()

	out, err := run(t, commands.Valid, "validate", "-f", "-", "--accept=secretRef,nonsense")
	require.NoError(t, err, "one list may be used for several files")
	require.Contains(t, out, "(1 more accepted); objects of other kinds: 0\n--accept=nonsense: no warning is about this field; remove it, or correct its name\n")

	out, err = run(t, commands.Head, "validate", "-f", "-", "--accept=providerSpec.networks")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.NotContains(t, out, "--accept", "without its errors, the class may have such a warning")
}
