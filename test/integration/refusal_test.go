package integration

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestForeignObjectsAreNeverTouched creates another shoot's objects under the names of the driver's
// objects.
func TestForeignObjectsAreNeverTouched(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	foreign := map[string]string{"mcm.gardener.cloud/cluster": "another-shoot", "mcm.gardener.cloud/role": "node"}

	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: m.name(), Labels: foreign},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}
	vm, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), vm, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
	_, err = m.create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, codeOf(err))
	listed, err := m.list(t.Context(), d)
	require.NoError(t, err)
	require.Empty(t, listed)
	require.NoError(t, m.remove(t.Context(), d))
	require.Equal(t, vm.UID, s.vm(t, m.name()).UID)
	require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
	s.requireNothingLeft(t, "VirtualMachine "+m.name())

	other := s.newMachine("zone-a", importedRoot)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: other.name() + "-userdata", Labels: foreign}, StringData: map[string]string{"a": "b"}}
	_, err = s.kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = other.create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, codeOf(err))
	require.NoError(t, other.remove(t.Context(), d))
	s.requireNothingLeft(t, "VirtualMachine "+m.name(), "Secret "+secret.Name)
}

func TestTwoShootsInOneNamespaceDoNotNoticeEachOther(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	mine, theirs := s.newMachine("zone-a", importedRoot), s.newMachine("zone-a", importedRoot)
	theirs.class.ProviderSpec.Raw = []byte(replace(string(theirs.class.ProviderSpec.Raw), s.Namespace, s.Namespace+"-b"))

	for _, m := range []*machine{mine, theirs} {
		_, err := m.create(t.Context(), d)
		require.NoError(t, err)
	}

	for _, m := range []*machine{mine, theirs} {
		listed, err := m.list(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"kubevirt://" + m.name(): m.name()}, listed)
	}

	intruder := *mine
	intruder.machine = theirs.machine
	require.NoError(t, intruder.remove(t.Context(), d), "the other shoot's machine does not exist for this one")
	require.Nil(t, s.vm(t, theirs.name()).DeletionTimestamp)

	require.NoError(t, theirs.remove(t.Context(), d))
	require.NoError(t, mine.remove(t.Context(), d))
	s.deleteImages(t, s.Namespace+"-b")
	s.requireNothingLeft(t)
}

func TestProviderRefusals(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	s.expectDenials("the driver has no rights in other namespaces")

	tests := map[string]struct {
		reason string
		change func(*machine)
		want   codes.Code
		says   string
	}{
		"BadToken": {
			reason: "credentials that the provider refuses",
			change: func(m *machine) {
				m.secret.Data["kubeconfig"] = []byte(replace(string(m.secret.Data["kubeconfig"]), "token: ey", "token: no"))
			},
			want: codes.Unauthenticated, says: "Unauthorized",
		},
		"ForeignNamespace": {
			reason: "rights are namespaced",
			change: func(m *machine) {
				m.secret.Data["kubeconfig"] = []byte(replace(string(m.secret.Data["kubeconfig"]), "namespace: "+s.ProviderNamespace, "namespace: kube-system"))
			},
			want: codes.PermissionDenied, says: "forbidden",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := s.newMachine("zone-a", importedRoot)
			tc.change(m)

			_, err := m.create(t.Context(), d)
			require.Equal(t, tc.want, codeOf(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.says, tc.reason)
		})
	}
}
