// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

var update = flag.Bool("update", false, "write the golden files")

// TestNewReport_Wrong validates each manifest of testdata/wrong. Each contains a typical mistake, and the
// golden file beside it is the output for it, which must be understandable without the source code.
func TestNewReport_Wrong(t *testing.T) {
	t.Parallel()

	const several = 10

	requireGolden(t, "testdata/wrong", several, output.ExitInvalid)
}

// TestNewReport_Doubtful validates each manifest of testdata/doubtful, which API servers would accept: there
// are warnings and no errors.
func TestNewReport_Doubtful(t *testing.T) {
	t.Parallel()
	requireGolden(t, "testdata/doubtful", 1, 0)
}

func requireGolden(t *testing.T, folder string, least, code int) {
	t.Helper()

	files, err := filepath.Glob(folder + "/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), least)

	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()

			got, err := run(t, "", "validate", "-f", file)
			require.Equal(t, code, output.ExitCode(err))
			require.NotContains(t, got, "t0p-secret", "what a Secret holds is not printed")

			golden := strings.TrimSuffix(file, ".yaml") + ".golden.txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}

			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// TestNewReport_Shipped validates all shipped MachineClasses, wherever they are.
func TestNewReport_Shipped(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("../../kubernetes/*/*.yaml")
	require.NoError(t, err)

	args := []string{"validate", "--output", "json"}
	for _, file := range files {
		args = append(args, "-f", file)
	}

	out, err := run(t, "", args...)
	require.NoError(t, err, out)

	var got Report
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.GreaterOrEqual(t, len(got.Classes), 2)
	require.Zero(t, got.Errors)

	for _, class := range got.Classes {
		for _, w := range class.Warnings {
			require.NotContains(t, w.Field, "nodeTemplate.", "%s: what is shipped agrees with itself", class.Name)
		}
	}
}

func TestReport_Scripts(t *testing.T) {
	t.Parallel()

	const want = `
classes:
- name: c
  namespace: ns
  file: standard input
  line: 1
  errors: []
  warnings:
  - {field: nodeTemplate, line: 1, message: "is missing: cluster-autoscaler cannot scale the worker pool up from zero machines"}
  - {field: secretRef, line: 4, message: "Secret ns/s is not in the files, so its keys are not checked"}
- name: ""
  namespace: ""
  file: standard input
  line: 15
  errors:
  - {field: metadata.generation, line: 17, message: "Invalid value: must be an integer"}
  - {field: metadata.name, line: 17, message: "Invalid value: must be a string; in YAML, quote numbers, true and false"}
  - {field: providerSpec, line: 15, message: "Required value: describe the machine: region, zone, tags, memory and rootVolume"}
  - {field: secretRef, line: 18, message: "Invalid value: must be an object"}
  warnings: []
unreadable:
- {file: standard input, message: "line 20: the object that begins here has no kind: it is not a Kubernetes manifest"}
passedOver: 1
errors: 5
warnings: 2
`

	text := strings.Replace(commands.Valid, "rootVolume:",
		"networks: [{pod: {}, masquerade: {}}]\n  rootVolume:", 1) + `---
kind: ConfigMap
---
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: on, generation: one}
secretRef: s
---
nothing
`

	for _, format := range []string{"yaml", "json"} {
		out, err := run(t, text, "validate", "-f", "-", "-o", format)
		require.Equal(t, output.ExitInvalid, output.ExitCode(err))

		require.Equal(t, format == "json", json.Valid([]byte(out)), out)
		require.YAMLEq(t, want, out)
	}
}

func TestNewReport_DuplicateKey(t *testing.T) {
	t.Parallel()

	text := `{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": {"name": "c", "name": "d"},
		"providerSpec": {"zone": "a", "zone": "b"}}`

	out, err := run(t, text, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "metadata.name: Forbidden: the field is given twice")
	require.Contains(t, out, "providerSpec.zone: Forbidden: the field is given twice")
}

// TestExcludeReported validates a class with parts that cannot be parsed.
func TestExcludeReported(t *testing.T) {
	t.Parallel()

	text := "kind: List\napiVersion: v1\nitems:\n- kind: MachineClass\n  metadata: {name: c, labels: []}\n  spec: {region: r, zone: z}\n"

	out, err := run(t, text, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "metadata.labels: Invalid value: must be an object")
	require.Equal(t, 1, strings.Count(out, ": spec: Forbidden: unknown field; the fields are apiVersion, "))
	require.Contains(t, out, `apiVersion: Unsupported value: ""`, "the List's is not the item's")
}

// secretManifest returns a Secret. Keys of odd length go to
// stringData, those of even length to data.
func secretManifest(t *testing.T, name string, data map[string]string) string {
	t.Helper()

	object := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": name, "namespace": "ns"}}
	plain := map[string]string{}
	encoded := map[string]string{}

	for key, value := range data {
		if len(key)%2 == 1 {
			plain[key] = value
		} else {
			encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
		}
	}

	object["stringData"] = plain
	object["data"] = encoded

	text, err := yaml.Marshal(object)
	require.NoError(t, err)

	return "---\n" + string(text)
}

func TestNewCommand_SecretData(t *testing.T) {
	t.Parallel()

	const both = "credentialsSecretRef: {name: p, namespace: ns}\n"

	badCertificate := strings.Replace(commands.GoodKubeconfig, "token: t0p-secret", "client-certificate-data: dDBwLXNlY3JldA==, client-key-data: dDBwLXNlY3JldA==", 1)
	noNamespace := strings.Replace(commands.GoodKubeconfig, ", namespace: machines", "", 1)

	type secrets map[string]map[string]string

	tests := map[string]struct {
		reason  string
		class   string
		secrets secrets
		want    string
		code    int
	}{
		"One": {
			reason:  "one Secret may hold everything",
			secrets: secrets{"s": {"kubeconfig": commands.GoodKubeconfig, "userData": "#cloud-config <<BOOTSTRAP_TOKEN>>"}},
			want:    "0 errors, 2 warnings",
		},
		"Two": {
			reason:  "both Secrets are merged",
			class:   both,
			secrets: secrets{"s": {"userData": "#cloud-config <<BOOTSTRAP_TOKEN>>"}, "p": {"kubeconfig": commands.GoodKubeconfig}},
			want:    "0 errors, 2 warnings",
		},
		"CredentialsWin": {
			reason:  "as machine-controller-manager merges them",
			class:   both,
			secrets: secrets{"s": {"userData": "#cloud-config <<BOOTSTRAP_TOKEN>>", "kubeconfig": "bad"}, "p": {"kubeconfig": commands.GoodKubeconfig}},
			want:    "0 errors, 2 warnings",
		},
		"OneUnknown": {
			reason:  "what is missing may be in the other",
			class:   both,
			secrets: secrets{"s": {"userData": "#cloud-config"}},
			want:    "warning  line 11: credentialsSecretRef: Secret ns/p is not in the files",
		},
		"MissingInBoth": {
			reason:  "both are named",
			class:   both,
			secrets: secrets{"s": {}, "p": {"kubeconfig": commands.GoodKubeconfig}},
			want:    "error    line 4: secretRef: the key userData is missing or empty in Secret ns/s and Secret ns/p",
			code:    output.ExitInvalid,
		},
		"IncompleteRef": {
			reason:  "what is missing may be in the Secret that is not named",
			class:   "credentialsSecretRef: {name: p}\n",
			secrets: secrets{"s": {"userData": "#cloud-config"}},
			want:    ", 1 error,",
			code:    output.ExitInvalid,
		},
		"Empty": {
			reason:  "an empty value is none",
			secrets: secrets{"s": {"userData": "", "kubeconfig": commands.GoodKubeconfig}},
			want:    "the key userData is missing or empty",
			code:    output.ExitInvalid,
		},
		"NoKubeconfig": {
			reason:  "nothing of it is quoted",
			secrets: secrets{"s": {"userData": "u", "kubeconfig": "t0p-secret"}},
			want:    "not a kubeconfig",
			code:    output.ExitInvalid,
		},
		"BadCertificate": {
			reason:  "nothing of it is quoted",
			secrets: secrets{"s": {"userData": "u", "kubeconfig": badCertificate}},
			want:    "key kubeconfig: its certificates or its client key are invalid",
			code:    output.ExitInvalid,
		},
		"NoNamespace": {
			reason:  "it is easily forgotten",
			secrets: secrets{"s": {"userData": "u", "kubeconfig": noNamespace}},
			want:    "in the namespace default",
		},
		"Ignition": {
			reason:  "the user data is looked at",
			secrets: secrets{"s": {"userData": `{"ignition": {"version": "3.4.0"}}`, "kubeconfig": commands.GoodKubeconfig}},
			want:    "warning  line 5: providerSpec.cloudInit.type",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			text := commands.Valid + tc.class
			for name, data := range tc.secrets {
				text += secretManifest(t, name, data)
			}

			out, err := run(t, text, "validate", "-f", "-")
			require.Equal(t, tc.code, output.ExitCode(err), out)
			require.Contains(t, out, tc.want, tc.reason)
			require.NotContains(t, out, "t0p-secret", "what a Secret holds is not printed")
		})
	}
}

// TestValidateClass_UserData has wrong user data in the file of the MachineClass, and in another one.
func TestValidateClass_UserData(t *testing.T) {
	t.Parallel()

	const (
		wrong   = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: ns}\nstringData:\n  userData: |\n    #cloud-config\n    - runcmd\n"
		doubted = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: ns}\ndata:\n  userData: I2Nsb3VkLWNvbmZpZwo=\n"
	)

	out, err := run(t, commands.Valid+"---\n"+wrong, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "error    standard input:16: userData: Invalid value: must be an object")

	class := commands.Write(t, "class.yaml", commands.Valid)
	separate := commands.Write(t, "secret.yaml", wrong)
	out, err = run(t, "", "validate", "-f", class, "-f", separate)
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "error    "+separate+":5: userData: Invalid value: must be an object")

	out, err = run(t, "", "validate", "-f", class, "-f", commands.Write(t, "secret.yaml", doubted), "-o", "json")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err), "it has no kubeconfig")
	require.Regexp(t, `"field": "userData",\s+"message": "[^"]+",\s+"line": 5,\s+"file": "[^"]+secret.yaml"`, out)
}

// TestNewCommand_MisspeltSecretKeys checks the messages for keys of a Secret that resemble the
// driver's keys.
func TestNewCommand_MisspeltSecretKeys(t *testing.T) {
	t.Parallel()

	text := commands.Valid + secretManifest(t, "s", map[string]string{"userdata": "u", "kube-config": commands.GoodKubeconfig, "unrelated": "t0p-secret"})

	out, err := run(t, text, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "error    line 4: secretRef: the key userData is missing or empty in Secret ns/s; rename its key userdata")
	require.Contains(t, out, "error    line 4: secretRef: the key kubeconfig is missing or empty in Secret ns/s; rename its key kube-config")
	require.NotContains(t, out, "unrelated")

	out, err = run(t, commands.Valid+"credentialsSecretRef: {name: p, namespace: ns}\n"+
		secretManifest(t, "s", map[string]string{"userdata": "u", "kubeconfig": commands.GoodKubeconfig}), "validate", "-f", "-")
	require.NoError(t, err, "the other Secret may have it")
	require.Contains(t, out, "warning  line 4: secretRef: Secret ns/s: the key userdata is ignored; did you mean userData?")
}

// TestNewCommand_TooLarge validates objects that an API server rejects or cannot store.
func TestNewCommand_TooLarge(t *testing.T) {
	t.Parallel()

	const kib = 1 << 10

	// secretOf returns a Secret whose values have that total size.
	secretOf := func(size int) string {
		return secretManifest(t, "s", map[string]string{"userData": strings.Repeat("u", size-len(commands.GoodKubeconfig)), "kubeconfig": commands.GoodKubeconfig})
	}

	large := strings.Replace(commands.Valid, "  zone: z\n", "  zone: z\n  cloudInit: {networkData: \""+strings.Repeat("n", 1536*kib)+"\"}\n", 1)

	tests := map[string]struct {
		reason string
		text   string
		want   string
		code   int
	}{
		"SecretFits": {reason: "exactly what the API server allows", text: commands.Valid + secretOf(1024*kib), want: ", 0 errors,"},
		"Secret": {
			reason: "one byte more",
			text:   commands.Valid + secretOf(1024*kib+1),
			code:   output.ExitInvalid,
			want: "error    line 4: secretRef: Secret ns/s (standard input): its values have 1048577 bytes in total, but the API server accepts at most 1048576 (1 MiB); " +
				"shorten them",
		},
		"Class": {
			reason: "etcd takes no such request",
			text:   large,
			code:   output.ExitInvalid,
			want:   "bytes, but etcd accepts at most 1572864 (1.5 MiB); shorten it",
		},
		"JSONWithSpaces": {
			reason: "spaces are not stored",
			text:   strings.Replace(commands.ClassAsJSON, ":", ":"+strings.Repeat(" ", 1600*kib), 1),
			want:   ", 0 errors,",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, tc.text, "validate", "-f", "-")
			require.Equal(t, tc.code, output.ExitCode(err), tc.reason)
			require.Contains(t, out, tc.want, tc.reason)
			require.Less(t, len(out), 4*kib, "the value is not repeated")
		})
	}
}

func TestNewCommand_SecretWithoutNamespace(t *testing.T) {
	t.Parallel()

	text := commands.Valid + "---\nkind: Secret\nmetadata: {name: s}\nstringData: {kubeconfig: bad}\nstringdata: {t0p-secret: x}\n"

	out, err := run(t, text, "validate", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, out, "not a kubeconfig", "it is applied to whatever namespace is meant")
	require.Contains(t, out, "one that Secrets do not have", "a misspelt field explains a missing key")
	require.NotContains(t, out, "t0p-secret")
}
