// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// run runs the program as a user does, and returns its output.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	var out bytes.Buffer

	cmd := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &out})
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

// TestRootCommand_Completion checks the flags and completions that users know from kubectl.
func TestRootCommand_Completion(t *testing.T) {
	t.Parallel()

	shoot := commands.ShootWith(commands.Provided(t)).Leased(commands.JustNow, commands.JustNow)
	shoot[commands.MCMPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[{"metadata":{"name":"m"}},{"metadata":{"name":"n"}}]}`
	shoot["/api/v1/namespaces"] = `{"apiVersion":"v1","kind":"NamespaceList","items":[{"metadata":{"name":"shoot"}}]}`
	file := shoot.Control(t)

	for name, args := range map[string][]string{
		"short namespace": {"diagnose", "--kubeconfig", file, "-n", "shoot", "m"}, "context": {"diagnose", "--kubeconfig", file, "--context=c", "m"},
		"machine-controller-manager's name": {"diagnose", "--control-kubeconfig", file, "--namespace=shoot", "m"},
	} {
		out, err := run(t, "", args...)
		require.NoError(t, err, "%s\n%s", name, out)
	}

	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"machines":       {[]string{"diagnose", "--kubeconfig", file, ""}, []string{"m", "n"}},
		"other machines": {[]string{"diagnose", "--kubeconfig", file, "m", ""}, []string{"n"}},
		"output":         {[]string{"diagnose", "--output", ""}, []string{"text", "yaml", "json", "go-template", "jsonpath"}},
		"short output":   {[]string{"preflight", "-o", ""}, []string{"text", "yaml", "json", "go-template", "jsonpath"}},
		"namespace":      {[]string{"preflight", "--kubeconfig", file, "-n", ""}, []string{"shoot"}},
		"context":        {[]string{"diagnose", "--kubeconfig", file, "--context", ""}, []string{"c"}},
		"classes":        {[]string{"render", "-f", commands.Shipped, "--class", ""}, []string{"example-worker-z1", "example-worker-z2"}},
		"no cluster":     {[]string{"diagnose", "--kubeconfig", "missing", ""}, nil},
	} {
		out, err := run(t, "", append([]string{"__complete"}, tc.args...)...)
		require.NoError(t, err, name)

		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Equal(t, tc.want, append([]string(nil), lines[:len(lines)-1]...), name)
	}

	out, err := run(t, "", "version")
	require.NoError(t, err)

	same, err := run(t, "", "--version")
	require.NoError(t, err)
	require.Equal(t, same, out)
}

// TestRootCommand_Errors checks the errors for missing or wrong input.
func TestRootCommand_Errors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	empty := commands.Write(t, "empty.yaml", "")

	t.Setenv("KUBECONFIG", missing)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")

	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{"no name", []string{"diagnose"}, []string{"no Machine specified", "kubectl get machines", "--all"}},
		{"a file that is not there", []string{"diagnose", "--kubeconfig", missing, "m"}, []string{"--kubeconfig", missing, "no such file"}},
		{"a file that kubectl would take", []string{"preflight"}, []string{missing, "--kubeconfig", "$KUBECONFIG"}},
		{"an empty file", []string{"preflight", "--kubeconfig", empty}, []string{empty, "--kubeconfig"}},
		{"no such context", []string{"diagnose", "--kubeconfig", commands.ControlKubeconfig(t, "http://127.0.0.1:1"), "--context=x", "m"}, []string{`"x"`, "--context"}},
		{"the provider's", []string{"preflight", "--provider-kubeconfig", missing}, []string{"--provider-kubeconfig", missing}},
		{"both", []string{"preflight", "-A", "-n", "x"}, []string{"--all-namespaces (-A)", "--namespace (-n)"}},
		{"a name too many", []string{"diagnose", "-A", "m"}, []string{"--all-namespaces (-A)"}},
		{"an unknown flag", []string{"diagnose", "--namspace=x", "m"}, []string{"--namspace", "mcm-kubevirt diagnose --help"}},
	} {
		_, err := run(t, "", tc.args...)
		require.Error(t, err, tc.reason)
		require.Equal(t, output.ExitUsage, output.ExitCode(err), tc.reason)

		for _, want := range tc.want {
			require.ErrorContains(t, err, want, tc.reason)
		}
	}
}

func TestRootCommand_Usage(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()

	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"UnknownCommand":  {reason: "a typo is named", args: []string{"valdate"}, want: "valdate"},
		"UnknownFlag":     {reason: "a typo is named", args: []string{"validate", "--file", "x"}, want: "--file"},
		"NoFile":          {reason: "there is no default", args: []string{"validate"}, want: "--filename"},
		"NoFlags":         {reason: "both are required", args: []string{"render"}, want: "--filename (-f) and --machine are required"},
		"ShellPattern":    {reason: "a shell makes arguments of it", args: []string{"validate", "-f", commands.Shipped, "b.yaml"}, want: "-f before each file"},
		"MissingFile":     {reason: "the file is named", args: []string{"validate", "-f", "missing.yaml"}, want: "missing.yaml"},
		"EmptyFolder":     {reason: "the folder is named", args: []string{"validate", "-f", folder}, want: folder},
		"UnknownOutput":   {reason: "the choices are named", args: []string{"validate", "-f", commands.Shipped, "-o", "xml"}, want: "jsonpath; --help lists the flags"},
		"UnknownTemplate": {reason: "the choices are named", args: []string{"render", "--virtual-machine-template=some"}, want: "none, safe, all; --help lists the flags"},
		"EmptyFile":       {reason: "nothing is not valid", args: []string{"validate", "-f", "-"}, want: "no MachineClass and no other object"},
		"NoMachine":       {reason: "there is no default", args: []string{"diagnose"}, want: "no Machine specified"},
		"ClusterAlone":    {reason: "the other flag is named", args: []string{"diagnose", "--cluster=c", "m"}, want: "--provider-kubeconfig"},
		"SeveralClasses": {
			reason: "the classes are named",
			args:   []string{"render", "-f", commands.Shipped, "--machine", "m"},
			want:   "--class: example-worker-z1, example-worker-z2",
		},
		"OtherClass": {
			reason: "the classes are named",
			args:   []string{"render", "-f", commands.Shipped, "--machine", "m", "--class", "x"},
			want:   "example-worker-z1",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := run(t, "", tc.args...)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Equal(t, output.ExitUsage, output.ExitCode(err), "the manifests are not to blame")
		})
	}
}

func TestRootCommand_ExitCode(t *testing.T) {
	t.Parallel()

	_, err := run(t, commands.Valid, "validate", "-f", "-")
	require.Equal(t, 0, output.ExitCode(err), "warnings are no errors")

	_, err = run(t, commands.Head, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))

	_, err = run(t, commands.Head, "render", "-f", "-", "--machine", "m")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
}

// TestRootCommand_WrapsHelp requires the lines of help texts and flags to be at most 120 characters
// long.
func TestRootCommand_WrapsHelp(t *testing.T) {
	t.Parallel()

	for _, command := range []string{"validate", "preflight", "diagnose"} {
		out, err := run(t, "", command, "--help")
		require.NoError(t, err)

		text, _, found := strings.Cut(out, "Usage:")
		require.True(t, found)

		_, flags, found := strings.Cut(out, "\nFlags:")
		require.True(t, found)

		for line := range strings.Lines(text + flags) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), 120, line)
		}
	}
}
