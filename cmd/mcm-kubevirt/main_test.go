package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shipped is a file with manifests for new users.
const shipped = "../../kubernetes/example/machineclasses.yaml"

// head is the beginning of a MachineClass, without its providerSpec.
const head = `apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: c, namespace: ns}
secretRef: {name: s, namespace: ns}
`

// valid is a MachineClass without errors.
const valid = head + `providerSpec:
  region: r
  zone: z
  tags: {mcm.gardener.cloud/cluster: c, mcm.gardener.cloud/role: node}
  memory: {guest: 1Gi}
  rootVolume: {containerDisk: {image: example.com/image}}
`

// run runs the program as a user does, and returns its output.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	var out bytes.Buffer

	cmd := rootCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

// write writes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	return path
}

func TestWrongUsage(t *testing.T) {
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
		"ShellPattern":    {reason: "a shell makes arguments of it", args: []string{"validate", "-f", shipped, "b.yaml"}, want: "-f before each file"},
		"MissingFile":     {reason: "the file is named", args: []string{"validate", "-f", "missing.yaml"}, want: "missing.yaml"},
		"EmptyFolder":     {reason: "the folder is named", args: []string{"validate", "-f", folder}, want: folder},
		"UnknownOutput":   {reason: "the choices are named", args: []string{"validate", "-f", shipped, "-o", "xml"}, want: "text, yaml, json"},
		"UnknownTemplate": {reason: "the choices are named", args: []string{"render", "--virtual-machine-template=some"}, want: "none, safe, all"},
		"EmptyFile":       {reason: "nothing is not valid", args: []string{"validate", "-f", "-"}, want: "no MachineClass and no other object"},
		"NoMachine":       {reason: "there is no default", args: []string{"diagnose"}, want: "no Machine specified"},
		"ClusterAlone":    {reason: "the other flag is named", args: []string{"diagnose", "--cluster=c", "m"}, want: "--provider-kubeconfig"},
		"SeveralClasses": {
			reason: "the classes are named", args: []string{"render", "-f", shipped, "--machine", "m"}, want: "--class: example-worker-z1, example-worker-z2",
		},
		"OtherClass": {
			reason: "the classes are named", args: []string{"render", "-f", shipped, "--machine", "m", "--class", "x"}, want: "example-worker-z1",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := run(t, "", tc.args...)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Equal(t, exitUsage, exitCode(err), "the manifests are not to blame")
		})
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()

	_, err := run(t, valid, "validate", "-f", "-")
	require.Equal(t, 0, exitCode(err), "warnings are no errors")

	_, err = run(t, head, "validate", "-f", "-")
	require.Equal(t, exitInvalid, exitCode(err))

	_, err = run(t, head, "render", "-f", "-", "--machine", "m")
	require.Equal(t, exitInvalid, exitCode(err))
}
