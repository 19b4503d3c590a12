package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const manifests = "../../kubernetes/example/machineclasses.yaml"

func runRender(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	var out bytes.Buffer

	cmd := rootCommand()
	cmd.SetArgs(append([]string{"render"}, args...))
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())

	return out.String(), err
}

func TestRenderShippedClass(t *testing.T) {
	t.Parallel()

	out, err := runRender(t, "", "-f", manifests, "--class", "example-worker-z2", "--machine", "worker-1")
	require.NoError(t, err)
	require.Contains(t, out, "kind: Secret")
	require.Contains(t, out, "userdata: REDACTED")
	require.Contains(t, out, "kind: VirtualMachine")
	require.Contains(t, out, "- zone-b")
}

func TestRenderErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()

	class := func(spec string) string {
		return "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: c}\nproviderSpec: " + spec
	}

	tests := map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"NoFlags":     {args: nil, want: "--filename and --machine are required"},
		"SeveralOnes": {args: []string{"-f", manifests, "--machine", "m"}, want: "--class"},
		"None":        {args: []string{"-f", "-", "--machine", "m"}, stdin: "kind: Secret\ndata: []\n", want: "no MachineClass"},
		"NoYAML":      {args: []string{"-f", "-", "--machine", "m"}, stdin: "a: [", want: "YAML"},
		"UnknownClassField": {
			args: []string{"-f", "-", "--machine", "m"}, stdin: class("{}") + "\nprovidor: kubevirt", want: "providor",
		},
		"BadSpec":    {args: []string{"-f", "-", "--machine", "m"}, stdin: class("{zoen: a}"), want: "zoen"},
		"BadMachine": {args: []string{"-f", "-", "--machine", "m.1"}, stdin: class("{}"), want: "m.1"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := runRender(t, tc.stdin, tc.args...)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
