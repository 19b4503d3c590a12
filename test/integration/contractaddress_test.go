package integration

import (
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// recorded creates a machine whose Machine records its address.
func (tr *transcript) recorded(t *testing.T, s *shoot, d driver.Driver) *machine {
	t.Helper()

	m := s.newMachine("zone-x", ephemeralRoot)
	resp, err := m.create(t.Context(), d)
	require.NoError(t, err)
	tr.note(m, resp, err)

	m.machine.Annotations = map[string]string{spi.AnnotationAddress: resp.LastKnownState}
	m.machine.Spec.ProviderID = resp.ProviderID

	return m
}

// showElsewhere points the kubeconfig to another namespace, in which the driver has the same
// rights, and then edits the tags.
func showElsewhere(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m, elsewhere := tr.recorded(t, s, d), newShoot(t)
	missed := func() {
		t.Helper()

		// The text contains the random name of the other namespace.
		_, err := m.status(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, codeOf(err), "NotFound would have another VirtualMachine created, or skip the drain")
		_, err = m.initialize(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, codeOf(err))

		err = m.remove(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, codeOf(err), "success would remove the Machine and its Node")
		require.ErrorContains(t, err, "AddressChanged: ")
		require.ErrorContains(t, err, "machine "+m.name()+" kubevirt.machine.gardener.cloud/address=abandoned")
		require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
	}

	m.secret = &corev1.Secret{Data: map[string][]byte{"kubeconfig": elsewhere.ProviderKubeconfig, "userData": []byte("x")}}
	missed()

	m.secret.Data["kubeconfig"] = s.ProviderKubeconfig
	spec := m.class.ProviderSpec.Raw
	m.class.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(spec), `"node"`, `"worker"`))
	missed()

	record := m.machine.Annotations
	m.machine.Annotations = nil
	require.Equal(t, codes.FailedPrecondition, tr.remove(t.Context(), d, m), "the label says whose it is")

	m.machine.Spec.ProviderID = ""
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "a Machine that never had a VirtualMachine has no claim")
	require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)

	m.machine.Annotations = map[string]string{spi.AnnotationAddress: spi.AddressAbandoned}
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "it was given up")
	require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)

	m.machine.Annotations, m.class.ProviderSpec.Raw = record, spec
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.requireGone(t, m.name())
}

// showMoved makes the same server reachable under another name.
func showMoved(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := tr.recorded(t, s, d)
	before := m.machine.Annotations[spi.AnnotationAddress]
	m.secret.Data["kubeconfig"] = []byte(replace(string(s.ProviderKubeconfig), "https://127.0.0.1:", "https://localhost:"))

	require.Equal(t, codes.Uninitialized, codeOf(second(m.status(t.Context(), d))), "it is there")

	resp, err := d.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})
	require.Equal(t, codes.Aborted, codeOf(err))
	require.NotNil(t, resp)
	tr.note(m, resp, err)
	require.Equal(t, replace(before, "127.0.0.1", "localhost"), resp.LastKnownState)
	require.Nil(t, s.vm(t, m.name()).DeletionTimestamp, "a later call could not tell where it was")

	m.machine.Annotations = map[string]string{spi.AnnotationAddress: resp.LastKnownState}
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.requireGone(t, m.name())
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "it is gone from its recorded address")
}

// showLongNames gives machines of the predecessor names that are not DNS labels.
func showLongNames(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	tags := map[string]string{"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node"}
	neighbour := s.newMachine("zone-x", ephemeralRoot)
	require.Equal(t, codes.OK, tr.create(t.Context(), d, neighbour))

	for _, name := range []string{s.Name + ".dotted", s.Name + "-" + strings.Repeat("l", 70)} {
		m := s.newMachine("zone-x", ephemeralRoot)
		m.machine.Name, m.machine.Spec.ProviderID = name, "kubevirt://"+name
		s.haltedVM(t, name, tags)

		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m))
		require.Equal(t, codes.Uninitialized, codeOf(second(m.status(t.Context(), d))), "it is there")
		require.Equal(t, codes.OK, tr.initialize(t.Context(), d, m))

		listed, err := m.list(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, name, listed["kubevirt://"+name])

		require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
		s.requireGone(t, name)
		require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
		require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	}

	_, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), neighbour.name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err, "no selector without a name")
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, neighbour))
}

func second[T any](_ T, err error) error { return err }

// TestRecordIsOfOneMachine checks that no other Machine of the same name gets the record.
func TestRecordIsOfOneMachine(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	m := s.newMachine("zone-a", ephemeralRoot)
	s.register(t, m)

	machines := s.mcm.MachineV1alpha1().Machines(s.Namespace)
	patch := []byte(`{"metadata":{"uid":"` + string(m.machine.UID) + `","annotations":{"a":"b"}}}`)
	_, err := machines.Patch(t.Context(), m.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	require.Error(t, err, "the server gave the Machine another UID")
	t.Log(err)
}
