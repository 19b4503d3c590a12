// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/validate"
)

// run runs a command line, and returns its output.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	return commands.Run(t, stdin, args, validate.NewCommand, render.NewCommand)
}

// TestRead_Formats reads manifests as editors, shells and other programs write them.
func TestRead_Formats(t *testing.T) {
	t.Parallel()

	other := strings.Replace(commands.Valid, "name: c,", "name: d,", 1)
	otherItem := "  - " + strings.ReplaceAll(strings.TrimSpace(other), "\n", "\n    ") + "\n"
	item := "  - " + strings.ReplaceAll(strings.TrimSpace(commands.Valid), "\n", "\n    ") + "\n"
	_, behindKind, _ := strings.Cut(commands.Valid, "kind: MachineClass\n")
	untyped := "  - " + strings.ReplaceAll(strings.TrimSpace(behindKind), "\n", "\n    ") + "\n"

	const foreign = `---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
spec: {clusterName: c}
---
apiVersion: compute.ironcore.dev/v1alpha1
kind: MachineClass
capabilities: {cpu: 1}
---
apiVersion: secrets.example.com/v1
kind: Secret
metadata: {name: s, namespace: ns}
`

	tests := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"YAML":            {reason: "the base of all cases", text: commands.Valid, want: "1 MachineClass, 0 errors"},
		"WindowsLineEnds": {reason: "as Windows writes them", text: strings.ReplaceAll(commands.Valid+"---\n"+other, "\n", "\r\n"), want: "2 MachineClasses, 0 errors"},
		"BOM":             {reason: "as Windows begins files", text: "\uFEFF" + commands.Valid, want: "1 MachineClass, 0 errors"},
		"BOMAndJSON":      {reason: "as Windows begins files", text: "\uFEFF" + commands.ClassAsJSON, want: "1 MachineClass, 0 errors"},
		"JSON":            {reason: "tabs are allowed there", text: commands.ClassAsJSON, want: "1 MachineClass, 0 errors"},
		"JSONStream":      {reason: "objects may follow each other", text: commands.ClassAsJSON + "\n" + strings.Replace(commands.ClassAsJSON, `{"name": "c"}`, `{"name": "d"}`, 1), want: "2 MachineClasses, 0 errors"},
		"Separated":       {reason: "JSON after a separator", text: "---\n" + commands.ClassAsJSON + "\n" + strings.Replace(commands.ClassAsJSON, `{"name": "c"}`, `{"name": "d"}`, 1), want: "2 MachineClasses, 0 errors"},
		"SameLine":        {reason: "a document may begin beside its separator", text: commands.Valid + "--- # another\n" + other + "--- {kind: AllowList}\n", want: "objects of other kinds: 1"},
		"Separators":      {reason: "empty documents are nothing", text: "---\n---\n# nothing\n---\n" + commands.Valid + "---\n", want: "(standard input:5)"},
		"List":            {reason: "as kubectl prints several", text: "apiVersion: v1\nkind: List\nitems:\n" + item + otherItem, want: "2 MachineClasses, 0 errors"},
		"TypedList": {
			reason: "the API server's lists have items without a kind",
			text:   "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClassList\nitems:\n" + untyped,
			want:   "1 MachineClass, 0 errors",
		},
		"OtherGroups": {
			reason: "other APIs have kinds of the same name",
			text:   commands.Valid + foreign,
			want:   "1 MachineClass, 0 errors, 3 warnings; objects of other kinds: 3",
		},
		"OtherKinds": {
			reason: "they are counted",
			text:   commands.Valid + "---\napiVersion: v1\nkind: ConfigMap\nzone: [1\n  ]\n---\nkind: AllowList\n",
			want:   "objects of other kinds: 2",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, tc.text, "validate", "-f", "-")
			require.NoError(t, err, "%s\n%s", tc.reason, out)
			require.Contains(t, out, tc.want, tc.reason)
		})
	}
}

func TestRead_Invalid(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"UTF16":        {reason: "as some shells of Windows write files", text: "\xff\xfek\x00i\x00", want: "UTF-8"},
		"Syntax":       {reason: "the line is named, or that before it", text: "a: b\n---\na:\n  - b\n c\n", want: "near line 4: did not find"},
		"Template":     {reason: "its first line is named", text: "# a chart\nkind: {{ .Values.kind }}\n", want: "line 2: neither YAML nor JSON; the \"{{\" suggests a template"},
		"Prose":        {reason: "any text is YAML", text: "\nhello\n", want: "line 2: the object that begins here has no kind"},
		"Array":        {reason: "a list of objects is not a List", text: "[{}]", want: "line 1: the object that begins here has no kind"},
		"ItemNoKind":   {reason: "an item of a List needs one", text: "kind: List\nitems: [{}]", want: "no kind"},
		"InvalidKey":   {reason: "the parser's message would quote the key", text: "kind: Secret\n? {t0p-secret: 1}\n: 2", want: "line 1: the text that begins here"},
		"UnknownAlias": {reason: "the parser's message would quote the alias", text: "kind: *t0p-secret\n", want: "line 1: the text that begins here"},
		"WrongTag":     {reason: "the parser's message would quote the value", text: "kind: !!int t0p-secret\n", want: "line 1: the text that begins here"},
		"TwiceInList":  {reason: "a key may be given twice around the items too", text: "kind: List\nitems: []\nitems: []\n", want: "line 3: the field \"items\" is given twice"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			file := commands.Write(t, "x.yaml", tc.text)

			out, err := run(t, "", "validate", "-f", file)
			require.Equal(t, output.ExitInvalid, output.ExitCode(err), tc.reason)
			require.Contains(t, out, file, "the file is named")
			require.Contains(t, out, tc.want, tc.reason)
			require.NotContains(t, out, "t0p-secret", tc.reason)

			_, err = run(t, "", "render", "-f", file, "--machine", "m")
			require.Equal(t, output.ExitInvalid, output.ExitCode(err), tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestRead_Folder(t *testing.T) {
	t.Parallel()

	out, err := run(t, "", "validate", "-f", "../../kubernetes/example", "-f", commands.Write(t, "more.json", commands.Valid))
	require.NoError(t, err)
	require.Contains(t, out, "3 MachineClasses")
}

func TestFieldLines_JSON(t *testing.T) {
	t.Parallel()

	out, err := run(t, "kind: ConfigMap\n---\n"+strings.Replace(commands.ClassAsJSON, `"1Gi"`, `"1"`, 1), "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "line 4: providerSpec.memory.guest")
}

// TestFileFlags_Kustomize reads a kustomization with a prefix for names.
func TestFileFlags_Kustomize(t *testing.T) {
	t.Parallel()

	folder := filepath.Dir(commands.Write(t, "class.yaml", commands.Valid))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: [class.yaml]\nnamePrefix: z1-\n"), 0o600))

	out, err := run(t, "", "validate", "-k", folder)
	require.NoError(t, err, out)
	require.Contains(t, out, "MachineClass ns/z1-c (kustomize "+folder+":1)")

	_, err = run(t, "", "validate", "-k", folder, "-f", folder)
	require.ErrorContains(t, err, "--kustomize (-k) cannot be combined")

	_, err = run(t, "", "validate", "-k", t.TempDir())
	require.ErrorContains(t, err, "build --kustomize")
	require.Equal(t, output.ExitUsage, output.ExitCode(err))
}

func TestFileFlags_Comma(t *testing.T) {
	t.Parallel()

	file := commands.Write(t, "a,b.yaml", commands.Valid)

	out, err := run(t, "", "validate", "-f", file)
	require.NoError(t, err)
	require.Contains(t, out, "MachineClass ns/c ("+file+":1)")
}

// TestFileFlags_Recursive reads a folder in a folder only with --recursive.
func TestFileFlags_Recursive(t *testing.T) {
	t.Parallel()

	folder := filepath.Dir(commands.Write(t, "class.yaml", commands.Valid))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "more"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "more", "d.yml"), []byte(strings.Replace(commands.Valid, "name: c,", "name: d,", 1)), 0o600))

	out, err := run(t, "", "validate", "-f", folder)
	require.NoError(t, err)
	require.Contains(t, out, "1 MachineClass, 0 errors")

	out, err = run(t, "", "validate", "-R", "-f", folder)
	require.NoError(t, err)
	require.Contains(t, out, "2 MachineClasses, 0 errors")
	require.Contains(t, out, filepath.Join(folder, "more", "d.yml")+":1")
}

func TestAssumedFlags_Template(t *testing.T) {
	t.Parallel()

	text := commands.Valid + "  virtualMachineTemplate: {spec: {template: {spec: {volumes: [{name: d, hostDisk: {path: /d, type: Disk}}]}}}}\n"

	for policy, want := range map[string]int{"none": output.ExitInvalid, "safe": output.ExitInvalid, "all": 0} {
		out, err := run(t, text, "validate", "-f", "-", "--virtual-machine-template", policy)
		require.Equal(t, want, output.ExitCode(err), out)

		_, err = run(t, text, "render", "-f", "-", "--machine", "m", "--virtual-machine-template", policy)
		require.Equal(t, want, output.ExitCode(err), "the same as validate says")
	}
}
