// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestForeignObjectsAreNeverTouched creates another shoot's objects under the names of the driver's
// objects.
func TestForeignObjectsAreNeverTouched(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	foreign := map[string]string{"mcm.gardener.cloud/cluster": "another-shoot", "mcm.gardener.cloud/role": "node"}

	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name(), Labels: foreign},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}
	vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), vm, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = m.Status(t.Context(), d)
	require.Equal(t, codes.NotFound, harness.CodeOf(err))
	_, err = m.Create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, harness.CodeOf(err))
	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Empty(t, listed)
	require.NoError(t, m.Remove(t.Context(), d))
	require.Equal(t, vm.UID, s.VM(t, m.Name()).UID)
	require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)
	s.RequireNothingLeft(t, "VirtualMachine "+m.Name())

	other := s.NewMachine("zone-a", harness.ImportedRoot)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: other.Name() + "-userdata", Labels: foreign}, StringData: map[string]string{"a": "b"}}
	_, err = s.Kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = other.Create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, harness.CodeOf(err))
	require.NoError(t, other.Remove(t.Context(), d))
	s.RequireNothingLeft(t, "VirtualMachine "+m.Name(), "Secret "+secret.Name)
}

func TestTwoShootsInOneNamespaceDoNotNoticeEachOther(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	mine := s.NewMachine("zone-a", harness.ImportedRoot)
	theirs := s.NewMachine("zone-a", harness.ImportedRoot)
	theirs.Class.ProviderSpec.Raw = []byte(harness.MustReplace(string(theirs.Class.ProviderSpec.Raw), s.Namespace, s.Namespace+"-b"))

	for _, m := range []*harness.Machine{mine, theirs} {
		_, err := m.Create(t.Context(), d)
		require.NoError(t, err)
	}

	for _, m := range []*harness.Machine{mine, theirs} {
		listed, err := m.List(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"kubevirt://" + m.Name(): m.Name()}, listed)
	}

	intruder := *mine
	intruder.Machine = theirs.Machine
	require.NoError(t, intruder.Remove(t.Context(), d), "the other shoot's machine does not exist for this one")
	require.Nil(t, s.VM(t, theirs.Name()).DeletionTimestamp)

	require.NoError(t, theirs.Remove(t.Context(), d))
	require.NoError(t, mine.Remove(t.Context(), d))
	s.DeleteImages(t, s.Namespace+"-b")
	s.RequireNothingLeft(t)
}

func TestProviderRefusals(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	s.ExpectDenials("the driver has no permissions in other namespaces")

	tests := map[string]struct {
		reason string
		change func(*harness.Machine)
		want   codes.Code
		says   string
	}{
		"BadToken": {
			reason: "credentials that the provider refuses",
			change: func(m *harness.Machine) {
				m.Secret.Data["kubeconfig"] = []byte(harness.MustReplace(string(m.Secret.Data["kubeconfig"]), "token: ey", "token: no"))
			},
			want: codes.Unauthenticated,
			says: "Unauthorized",
		},
		"ForeignNamespace": {
			reason: "permissions are namespaced",
			change: func(m *harness.Machine) {
				m.Secret.Data["kubeconfig"] = []byte(harness.MustReplace(string(m.Secret.Data["kubeconfig"]), "namespace: "+s.ProviderNamespace, "namespace: kube-system"))
			},
			want: codes.PermissionDenied,
			says: "forbidden",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := s.NewMachine("zone-a", harness.ImportedRoot)
			tc.change(m)

			_, err := m.Create(t.Context(), d)
			require.Equal(t, tc.want, harness.CodeOf(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.says, tc.reason)
		})
	}
}
