package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// classAsJSON is a MachineClass without errors.
const classAsJSON = `{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": {"name": "c"},
	"secretRef": {"name": "s", "namespace": "ns"}, "providerSpec": {"region": "r", "zone": "z", "memory": {"guest": "1Gi"},
	"tags": {"mcm.gardener.cloud/cluster": "c", "mcm.gardener.cloud/role": "node"},
	"rootVolume": {"containerDisk": {"image": "example.com/image"}}}}`

// TestManners reads manifests as editors, shells and other programs write them.
func TestManners(t *testing.T) {
	t.Parallel()

	other := strings.Replace(valid, "name: c,", "name: d,", 1)
	otherItem := "  - " + strings.ReplaceAll(strings.TrimSpace(other), "\n", "\n    ") + "\n"
	item := "  - " + strings.ReplaceAll(strings.TrimSpace(valid), "\n", "\n    ") + "\n"
	_, behindKind, _ := strings.Cut(valid, "kind: MachineClass\n")
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
		"YAML":            {reason: "the base of all cases", text: valid, want: "1 MachineClass, 0 errors"},
		"WindowsLineEnds": {reason: "as Windows writes them", text: strings.ReplaceAll(valid+"---\n"+other, "\n", "\r\n"), want: "2 MachineClasses, 0 errors"},
		"BOM":             {reason: "as Windows begins files", text: "\uFEFF" + valid, want: "1 MachineClass, 0 errors"},
		"BOMAndJSON":      {reason: "as Windows begins files", text: "\uFEFF" + classAsJSON, want: "1 MachineClass, 0 errors"},
		"JSON":            {reason: "tabs are allowed there", text: classAsJSON, want: "1 MachineClass, 0 errors"},
		"JSONStream":      {reason: "objects may follow each other", text: classAsJSON + "\n" + strings.Replace(classAsJSON, `{"name": "c"}`, `{"name": "d"}`, 1), want: "2 MachineClasses, 0 errors"},
		"Separated":       {reason: "JSON after a separator", text: "---\n" + classAsJSON + "\n" + strings.Replace(classAsJSON, `{"name": "c"}`, `{"name": "d"}`, 1), want: "2 MachineClasses, 0 errors"},
		"SameLine":        {reason: "a document may begin beside its separator", text: valid + "--- # another\n" + other + "--- {kind: AllowList}\n", want: "objects of other kinds: 1"},
		"Separators":      {reason: "empty documents are nothing", text: "---\n---\n# nothing\n---\n" + valid + "---\n", want: "(standard input:5)"},
		"List":            {reason: "as kubectl prints several", text: "apiVersion: v1\nkind: List\nitems:\n" + item + otherItem, want: "2 MachineClasses, 0 errors"},
		"TypedList": {
			reason: "the API server's lists have items without a kind",
			text:   "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClassList\nitems:\n" + untyped, want: "1 MachineClass, 0 errors",
		},
		"OtherGroups": {
			reason: "other APIs have kinds of the same name", text: valid + foreign, want: "1 MachineClass, 0 errors, 3 warnings; objects of other kinds: 3",
		},
		"OtherKinds": {
			reason: "they are counted", text: valid + "---\napiVersion: v1\nkind: ConfigMap\nzone: [1\n  ]\n---\nkind: AllowList\n", want: "objects of other kinds: 2",
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

func TestNoManifests(t *testing.T) {
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

			file := write(t, "x.yaml", tc.text)

			out, err := run(t, "", "validate", "-f", file)
			require.Equal(t, exitInvalid, exitCode(err), tc.reason)
			require.Contains(t, out, file, "the file is named")
			require.Contains(t, out, tc.want, tc.reason)
			require.NotContains(t, out, "t0p-secret", tc.reason)

			_, err = run(t, "", "render", "-f", file, "--machine", "m")
			require.Equal(t, exitInvalid, exitCode(err), tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()

	out, err := run(t, "", "validate", "-f", "../../kubernetes/example", "-f", write(t, "more.json", valid))
	require.NoError(t, err)
	require.Contains(t, out, "3 MachineClasses")
}
