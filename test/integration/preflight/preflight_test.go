// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// breakage is a defect of a provider cluster or a class.
type breakage struct {
	reason string
	// own runs it with a separate shoot, because its changes take effect with a delay.
	own    bool
	breaks func(t *testing.T, s *harness.Shoot, f *flight)
	// want are all results that are not OK.
	want []checks.Result
}

// TestPreflight breaks the requirements of a machine one at a time. Preflight must report exactly
// that defect, with its remedy.
func TestPreflight(t *testing.T) {
	t.Parallel()

	shared := harness.NewShoot(t)

	for name, b := range breakages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := shared
			if b.own {
				s = harness.NewShoot(t)
				s.ExpectDenials("preflight reports missing permissions")
			}

			f := newFlight(t, s)
			b.breaks(t, s, f)

			var got *outcome

			harness.Eventually(t, "preflight reports: "+b.reason, func(ctx context.Context) (bool, error) {
				got = f.run(ctx, t, s)

				return !b.own || len(got.bad()) >= len(b.want), nil
			})

			bad := got.bad()
			require.Len(t, bad, len(b.want), "%s: %v", b.reason, bad)

			for i, want := range b.want {
				requireResult(t, want, bad[i], s)
			}

			code := 0
			if strings.Contains(got.text, `"level": "error"`) {
				code = 1
			}

			require.Equal(t, code, got.code)
		})
	}
}

// requireResult compares names, and requires the expected texts. PROVIDER stands for the namespace.
func requireResult(t *testing.T, want, got checks.Result, s *harness.Shoot) {
	t.Helper()

	in := func(text string) string { return strings.ReplaceAll(text, "PROVIDER", s.ProviderNamespace) }

	require.Equal(t, want.Check, got.Check, "%v", got)
	require.Equal(t, want.Level, got.Level, "%v", got)
	require.Contains(t, got.Subject, in(want.Subject))
	require.Contains(t, got.Message, in(want.Message))
	require.Contains(t, got.Remedy, in(want.Remedy))
	require.NotEmpty(t, got.Remedy)
}

// TestPreflightOfALab checks that preflight finds no defect with the shipped manifests.
func TestPreflightOfALab(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	f := newFlight(t, s)

	got := f.run(t.Context(), t, s)
	require.Empty(t, got.bad())
	require.Equal(t, 0, got.code)

	made := map[string]bool{}
	for _, r := range got.results() {
		made[r.Check] = true
	}

	for _, check := range []string{"credentials", "credentials-expiry", "kubevirt", "cdi", "permission", "storage-profile", "quota", "dropped-fields", "webhook"} {
		require.True(t, made[check], check)
	}

	// A class with all fields is also returned unchanged.
	all := newFlight(t, s)
	all.file = "machineclass/complete.yaml"
	all.spec = nil

	for _, r := range all.run(t.Context(), t, s).results() {
		require.NotEqual(t, checks.Error, r.Level, "%v", r)
	}

	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left, "a dry run leaves nothing")

	// The driver's account alone may read less, and preflight reports that.
	s.ExpectDenials("preflight sends requests for which the driver has no permission")

	f.admin = nil
	f.spec["rootVolume.source"] = "{pvc: {name: image, namespace: images}}"

	alone := f.run(t.Context(), t, s)
	require.Equal(t, 0, alone.code)

	unseen := map[string]bool{}

	for _, r := range alone.bad() {
		unseen[r.Check] = true

		require.Equal(t, checks.Warning, r.Level, "%v", r)
		require.Contains(t, r.Message, "the driver's account may not read it")
		require.Contains(t, r.Remedy, "kubectl ")
	}

	require.Equal(t, map[string]bool{
		"cdi": true, "storage-class": true, "source": true, "clone-permission": true, "zone": true, "quota": true,
		"leftover": true,
	}, unseen)
}

// TestPreflightOfAControlCluster checks that classes, Secrets and the wanted number of machines
// are found without flags.
func TestPreflightOfAControlCluster(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	f := newFlight(t, s)
	s.ProviderKubeconfig = f.driver
	s.ApplyExample(t)

	_, err := s.Kube.CoreV1().ResourceQuotas(s.ProviderNamespace).Create(t.Context(), quota("pods", "1"), createOptions)
	require.NoError(t, err)

	command := exec.CommandContext(t.Context(), harness.RemoteDriver(), "preflight", "--provider-kubeconfig="+write(t, f.admin))
	command.Env = append(command.Environ(), "KUBECONFIG="+s.SidecarKubeconfig)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "a shortage is an estimate: %s", out)
	require.Contains(t, string(out), "from Secret "+s.Namespace+"/cloudprovider")
	require.Regexp(t, "warning  admin   quota .*probably not enough for [2-9] machines: ResourceQuota machines has 1 of pods left, but about [2-9] is needed", string(out))
	require.Contains(t, string(out), "remedy: raise the quota: kubectl --namespace "+s.ProviderNamespace+" describe resourcequotas")

	s.Scale(t, "example-worker-z1", 0)
	s.Scale(t, "example-worker-z2", 0)

	command = exec.CommandContext(t.Context(), harness.RemoteDriver(), "preflight", "--provider-kubeconfig="+write(t, f.admin), "-n", s.Namespace, "--all")
	command.Env = append(command.Environ(), "KUBECONFIG="+s.SidecarKubeconfig)
	out, err = command.CombinedOutput()
	require.NoError(t, err, "no machine is needed: %s", out)
	require.Contains(t, string(out), "no more machines are needed")
}

func quota(what corev1.ResourceName, most string) *corev1.ResourceQuota {
	o := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse(most)}}}
	o.Name = "machines"

	return o
}
