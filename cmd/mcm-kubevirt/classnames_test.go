package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames tests names of MachineClasses, alone and together.
func TestNames(t *testing.T) {
	t.Parallel()

	named := func(metadata string) string {
		return strings.Replace(valid, "{name: c, namespace: ns}", metadata, 1)
	}

	tests := map[string]struct {
		reason string
		text   string
		want   string
		code   int
	}{
		"OtherNamespace": {reason: "these are two", text: valid + "---\n" + named("{name: c, namespace: other}"), want: "2 MachineClasses, 0 errors"},
		"NoNamespace":    {reason: "it is applied to whatever namespace is meant", text: valid + "---\n" + named("{name: c}"), want: "2 MachineClasses, 0 errors"},
		"Equal": {
			reason: "one would replace the other", text: valid + "---\n" + valid, code: exitInvalid,
			want: `metadata.name: Duplicate value: "c": MachineClass ns/c is also defined at standard input:1; rename or remove one of them`,
		},
		"Generated": {reason: "MachineDeployments refer to a name", text: named("{generateName: c-}"), want: "metadata.name: Required value", code: exitInvalid},
		"UpperCase": {reason: "an API server refuses it", text: named("{name: Worker}"), want: `metadata.name: Invalid value: "Worker": a lowercase RFC 1123 subdomain`, code: exitInvalid},
		"Long":      {reason: "an API server refuses it", text: named("{name: " + strings.Repeat("w", 254) + "}"), want: "must be no more than 253", code: exitInvalid},
		"Namespace": {
			reason: "an API server refuses it", text: named("{name: c, namespace: a.b}"), want: `metadata.namespace: Invalid value: "a.b"`, code: exitInvalid,
		},
		"Dots": {reason: "Kubernetes allows them", text: named("{name: worker.z1, namespace: ns}"), want: ", 0 errors,"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, tc.text, "validate", "-f", "-")
			require.Equal(t, tc.code, exitCode(err), out)
			require.Contains(t, out, tc.want, tc.reason)
		})
	}
}
