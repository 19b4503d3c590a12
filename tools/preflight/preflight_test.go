// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machinefake "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

func TestCheck(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		stdin  string
		args   []string
		want   []checks.Result
	}{
		"Unreachable": {
			reason: "one result says it all",
			stdin:  commands.WithSecret(commands.Valid, commands.Unreachable),
			want:   []checks.Result{{Check: "credentials", Subject: "Secret ns/s", Message: "connection refused"}},
		},
		"Admin": {
			reason: "without the Secret, the flag's kubeconfig is used",
			stdin:  commands.Valid,
			args:   []string{"--provider-kubeconfig", "ADMIN"},
			want:   []checks.Result{{Check: "credentials", Subject: "--provider-kubeconfig", Message: "connection refused"}},
		},
		"RefusedKubeconfig": {
			reason: "kubeconfigs are read as the driver reads them",
			stdin:  commands.WithSecret(commands.Valid, strings.Replace(commands.Unreachable, "token: t0p-secret", "exec: {command: rm}", 1)),
			want:   []checks.Result{{Check: "credentials", Subject: "Secret ns/s", Message: "exec"}},
		},
		"BadSpec": {
			reason: "a class that cannot be read does not keep others",
			stdin:  commands.WithSecret(commands.Valid+"  zoen: z\n", commands.Unreachable),
			want: []checks.Result{
				{Check: "credentials", Subject: "Secret ns/s", Message: "connection refused"},
				{Check: "class", Class: "c", Subject: "MachineClass c", Message: "zoen"},
			},
		},
		"BadManifest": {
			reason: "nor does one that is no manifest",
			stdin:  commands.WithSecret(commands.Valid+"providor: kubevirt\n", commands.Unreachable),
			want: []checks.Result{
				{Check: "credentials", Subject: "Secret ns/s", Message: "connection refused"},
				{Check: "class", Class: "c", Subject: "MachineClass c", Message: "providor"},
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			admin := commands.Write(t, "admin.yaml", commands.Unreachable)
			args := append([]string{"preflight", "-f", "-", "-o", "json"}, tc.args...)

			for i := range args {
				args[i] = strings.Replace(args[i], "ADMIN", admin, 1)
			}

			out, err := run(t, tc.stdin, args...)
			require.Equal(t, output.ExitInvalid, output.ExitCode(err))
			require.NotContains(t, out, "t0p-secret")

			var got report

			require.NoError(t, json.Unmarshal([]byte(out), &got))
			require.Len(t, got.Clusters, 1)
			require.Len(t, got.Clusters[0].Results, len(tc.want), tc.reason)
			require.Equal(t, len(tc.want), got.Errors)

			for i, want := range tc.want {
				r := got.Clusters[0].Results[i]
				require.Equal(t, []string{want.Check, want.Class, want.Subject}, []string{r.Check, r.Class, r.Subject}, tc.reason)
				require.Contains(t, r.Message, want.Message, tc.reason)
				require.NotEmpty(t, r.Remedy)
			}
		})
	}
}

// TestCheck_NoKubeconfig shows that a class that cannot be checked is reported.
func TestCheck_NoKubeconfig(t *testing.T) {
	t.Parallel()

	files, err := manifests.Read(&manifests.FileFlags{Names: []string{"-"}}, strings.NewReader(commands.Valid))
	require.NoError(t, err)

	class := files.Classes[0]
	got := (&options{}).check(t.Context(), []subject{{name: class.Name, class: class}})
	require.Len(t, got.Results, 1)
	require.Equal(t, checks.Error, got.Results[0].Level)
	require.Contains(t, got.Results[0].Message, "no key kubeconfig")
}

func TestPage(t *testing.T) {
	t.Parallel()

	out, err := run(t, commands.WithSecret(commands.Valid+"  zoen: z\n", commands.Unreachable)+"---\n{{ template }}\n", "preflight", "-f", "-")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))

	for _, line := range []string{
		"Assuming that the machine controller runs with --evacuation=false and --virtual-machine-template=safe; if its flags differ, pass them to this command too\n",
		"standard input\n  error    line",
		"  identity driver  an unknown user, from Secret ns/s\n",
		"  error    driver  credentials         Secret ns/s: server https://127.0.0.1:1: ",
		"remedy: compare the server in the kubeconfig",
		"  error            class               MachineClass c: ",
		"0 ok, 0 warnings, 3 errors\n",
	} {
		require.Contains(t, out, line)
	}
}

// TestBySeverity shows the errors first, and what is ok on demand.
func TestBySeverity(t *testing.T) {
	t.Parallel()

	result := func(level checks.Level, subject, class string) checks.Result {
		return checks.Result{Level: level, Check: "zone", Subject: subject, Message: "m", Class: class, Remedy: map[bool]string{true: "fix it"}[level != checks.OK]}
	}
	given := report{Clusters: []*checks.Report{{Results: []checks.Result{
		result(checks.OK, "a", ""), result(checks.Warning, "b", "c1"), result(checks.Error, "d", "c1"), result(checks.OK, "e", "c2"), result(checks.Warning, "f", "c2"),
	}}}}
	given.count()

	text := func(all bool) string {
		var b strings.Builder

		require.NoError(t, page.Write(&b, given.bySeverity(all)))
		_, b2, _ := strings.Cut(b.String(), "\n\n")

		return b2
	}

	const problems = `  error            zone                d: m (MachineClass c1)
                                       remedy: fix it
  warning          zone                b: m (MachineClass c1)
                                       remedy: same as above
  warning          zone                f: m (MachineClass c2)
                                       remedy: same as above
`

	require.Equal(t, problems+"\n2 ok, 2 warnings, 1 error\n", text(false))
	require.Equal(t, problems+`  ok               zone                a: m
  ok               zone                e: m (MachineClass c2)

2 ok, 2 warnings, 1 error
`, text(true))
	require.Equal(t, "a", given.Clusters[0].Results[0].Subject, "the order of JSON stays")
}

func TestNewCommand_Usage(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		stdin  string
		args   []string
		want   string
	}{
		"NoClass":    {reason: "what there is, is named", stdin: "kind: ConfigMap\n", args: []string{"-f", "-"}, want: "ConfigMap"},
		"NoFile":     {reason: "the file is named", args: []string{"-f", "missing.yaml"}, want: "missing.yaml"},
		"NoControl":  {reason: "the flag is named", args: []string{"--control-kubeconfig", "missing.yaml"}, want: "--kubeconfig"},
		"NoProvider": {reason: "the flag is named", args: []string{"--provider-kubeconfig", "missing.yaml"}, want: "--provider-kubeconfig"},
		"NoSecret":   {reason: "all ways out are named", stdin: commands.Valid, args: []string{"-f", "-", "--control-kubeconfig", "missing.yaml"}, want: "add the Secret of MachineClass c to the files"},
		"Impersonate": {
			reason: "no control cluster is used, so nobody is impersonated",
			stdin:  commands.WithSecret(commands.Valid, "{}"),
			args:   []string{"-f", "-", "--as", "operator"},
			want:   "--as applies to the control cluster",
		},
		"UnknownFlag": {reason: "a typo is named", args: []string{"--kubeconf", "x"}, want: "--kubeconf"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := run(t, tc.stdin, append([]string{"preflight"}, tc.args...)...)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Equal(t, output.ExitUsage, output.ExitCode(err))
		})
	}
}

func TestSubjectsOf(t *testing.T) {
	t.Parallel()

	class := func(name, provider, secret string) *v1alpha1.MachineClass {
		return &v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name},
			Provider:   provider,
			SecretRef:  &corev1.SecretReference{Namespace: "shoot", Name: secret},
		}
	}
	machine := func(name, of string) *v1alpha1.Machine {
		return &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name},
			Spec:       v1alpha1.MachineSpec{Class: v1alpha1.ClassSpec{Name: of}},
		}
	}
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "d"}}
	deployment.Spec.Replicas = 5
	deployment.Spec.Template.Spec.Class.Name = "a"

	cluster := &controlcluster.Cluster{
		Machines: machinefake.NewSimpleClientset([]runtime.Object{
			class("a", "kubevirt", "there"), class("b", "kubevirt", "missing"), class("other", "aws", "there"),
			deployment, machine("m1", "a"), machine("m2", "a"),
		}...).MachineV1alpha1(),
		Kubernetes: fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "there"}, Data: map[string][]byte{"kubeconfig": []byte("k")}}),
		Namespace:  "shoot",
	}

	got, err := subjectsOf(t.Context(), cluster)
	require.NoError(t, err)
	require.Len(t, got, 2, "a class of another provider is ignored")
	require.Equal(t, 3, *got[0].wanted, "two of five are there")
	require.Zero(t, *got[1].wanted, "no MachineDeployment has this class")
	require.Equal(t, "Secret shoot/there", got[0].from)
	require.NoError(t, got[0].unusable)
	require.ErrorContains(t, got[1].unusable, "Secret shoot/missing")

	require.Len(t, grouped([]subject{got[0], got[1], got[0]}), 2, "classes with the same kubeconfig are checked together")

	cluster.Namespace = "elsewhere"
	_, err = subjectsOf(t.Context(), cluster)
	require.ErrorContains(t, err, "--namespace")
}
