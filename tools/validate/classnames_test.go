// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// TestNewReport_ClassNames tests names of MachineClasses, alone and together.
func TestNewReport_ClassNames(t *testing.T) {
	t.Parallel()

	named := func(metadata string) string {
		return strings.Replace(commands.Valid, "{name: c, namespace: ns}", metadata, 1)
	}

	tests := map[string]struct {
		reason string
		text   string
		want   string
		code   int
	}{
		"OtherNamespace": {reason: "these are two", text: commands.Valid + "---\n" + named("{name: c, namespace: other}"), want: "2 MachineClasses, 0 errors"},
		"NoNamespace":    {reason: "it is applied to whatever namespace is meant", text: commands.Valid + "---\n" + named("{name: c}"), want: "2 MachineClasses, 0 errors"},
		"Equal": {
			reason: "one would replace the other",
			text:   commands.Valid + "---\n" + commands.Valid,
			code:   output.ExitInvalid,
			want:   `metadata.name: Duplicate value: "c": MachineClass ns/c is also defined at standard input:1; rename or remove one of them`,
		},
		"Generated": {reason: "MachineDeployments refer to a name", text: named("{generateName: c-}"), want: "metadata.name: Required value", code: output.ExitInvalid},
		"UpperCase": {reason: "an API server refuses it", text: named("{name: Worker}"), want: `metadata.name: Invalid value: "Worker": a lowercase RFC 1123 subdomain`, code: output.ExitInvalid},
		"Long":      {reason: "an API server refuses it", text: named("{name: " + strings.Repeat("w", 254) + "}"), want: "must be no more than 253", code: output.ExitInvalid},
		"Namespace": {
			reason: "an API server refuses it",
			text:   named("{name: c, namespace: a.b}"),
			want:   `metadata.namespace: Invalid value: "a.b"`,
			code:   output.ExitInvalid,
		},
		"Dots": {reason: "Kubernetes allows them", text: named("{name: worker.z1, namespace: ns}"), want: ", 0 errors,"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, tc.text, "validate", "-f", "-")
			require.Equal(t, tc.code, output.ExitCode(err), out)
			require.Contains(t, out, tc.want, tc.reason)
		})
	}
}
