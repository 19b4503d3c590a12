// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example returns the path of a manifest of the documentation.
func example(name string) string { return filepath.Join("..", "..", "example", name) }

// rendered runs the command.
func rendered(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	var out bytes.Buffer

	cmd := newCommand()
	cmd.SetArgs(append([]string{"render"}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

// TestRenderCommand renders the example, from files and from standard input, and requires usable errors.
func TestRenderCommand(t *testing.T) {
	t.Parallel()

	shoot, err := os.ReadFile(example("90-shoot.yaml"))
	require.NoError(t, err)

	profile := "-f=" + example("30-cloudprofile.yaml")
	binding := "-f=" + example("50-credentialsbinding.yaml")

	tests := map[string]struct {
		reason string
		stdin  string
		args   []string
		// want is the expected error, or a part of the output.
		want, output string
	}{
		"Files":       {reason: "a Secret is ignored", args: []string{profile, binding, "-f", example("40-secret.yaml"), "-f", example("90-shoot.yaml")}, output: "kind: MachineClass"},
		"Stdin":       {reason: "a pipe", stdin: "# a comment\n---\n" + string(shoot), args: []string{profile, binding, "-f", "-"}, output: "name: shoot--project--name-cpu-worker-z1"},
		"NoShoot":     {reason: "nothing to do", args: []string{profile}, want: "no Shoot"},
		"NoProfile":   {reason: "it has the images", args: []string{binding, "-f", example("90-shoot.yaml")}, want: "add its manifest to the files"},
		"NoFile":      {reason: "a typo", args: []string{"-f", "missing.yaml"}, want: "missing.yaml"},
		"Unknown":     {reason: "fields are strict", stdin: strings.Replace(string(shoot), "  region:", "  regoin:", 1), args: []string{profile, binding, "-f", "-"}, want: "regoin"},
		"RefusedPool": {reason: "as the webhook", stdin: strings.Replace(string(shoot), "standard-1", "missing", 1), args: []string{profile, binding, "-f", "-"}, want: "spec.provider.workers[0].machine.type"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := rendered(t, tc.stdin, tc.args...)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.reason)

				return
			}

			require.NoError(t, err, tc.reason)
			require.Contains(t, out, tc.output)
			require.NotContains(t, out, "REPLACE-WITH-A-TOKEN", "credentials are not printed")
		})
	}
}
