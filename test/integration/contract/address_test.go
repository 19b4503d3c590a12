// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// recorded creates a machine whose Machine records its address.
func (tr *transcript) recorded(t *testing.T, s *harness.Shoot, d driver.Driver) *harness.Machine {
	t.Helper()

	m := s.NewMachine("zone-x", harness.EphemeralRoot)
	resp, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	tr.note(m, resp, err)

	m.Machine.Annotations = map[string]string{spi.AnnotationAddress: resp.LastKnownState}
	m.Machine.Spec.ProviderID = resp.ProviderID

	return m
}

// showElsewhere points the kubeconfig to another namespace, in which the driver has the same
// permissions, and then edits the tags.
func showElsewhere(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := tr.recorded(t, s, d)
	elsewhere := harness.NewShoot(t)
	missed := func() {
		t.Helper()

		// The text contains the random name of the other namespace.
		_, err := m.Status(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, harness.CodeOf(err), "NotFound would have another VirtualMachine created, or skip the drain")
		_, err = m.Initialize(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, harness.CodeOf(err))

		err = m.Remove(t.Context(), d)
		require.Equal(t, codes.FailedPrecondition, harness.CodeOf(err), "success would remove the Machine and its Node")
		require.ErrorContains(t, err, "AddressChanged: ")
		require.ErrorContains(t, err, "machine "+m.Name()+" kubevirt.machine.gardener.cloud/address=abandoned")
		require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)
	}

	m.Secret = &corev1.Secret{Data: map[string][]byte{"kubeconfig": elsewhere.ProviderKubeconfig, "userData": []byte("x")}}
	missed()

	m.Secret.Data["kubeconfig"] = s.ProviderKubeconfig
	spec := m.Class.ProviderSpec.Raw
	m.Class.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(spec), `"node"`, `"worker"`))
	missed()

	record := m.Machine.Annotations
	m.Machine.Annotations = nil
	require.Equal(t, codes.FailedPrecondition, tr.remove(t.Context(), d, m), "the label identifies the Machine")

	m.Machine.Spec.ProviderID = ""
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "a Machine that never had a VirtualMachine does not own one")
	require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)

	m.Machine.Annotations = map[string]string{spi.AnnotationAddress: spi.AddressAbandoned}
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "the machine was abandoned")
	require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)

	m.Machine.Annotations = record
	m.Class.ProviderSpec.Raw = spec
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.RequireGone(t, m.Name())
}

// showMoved makes the same server reachable under another name.
func showMoved(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := tr.recorded(t, s, d)
	before := m.Machine.Annotations[spi.AnnotationAddress]
	m.Secret.Data["kubeconfig"] = []byte(harness.MustReplace(string(s.ProviderKubeconfig), "https://127.0.0.1:", "https://localhost:"))

	require.Equal(t, codes.Uninitialized, harness.CodeOf(second(m.Status(t.Context(), d))), "the machine exists")

	resp, err := d.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})
	require.Equal(t, codes.Aborted, harness.CodeOf(err))
	require.NotNil(t, resp)
	tr.note(m, resp, err)
	require.Equal(t, harness.MustReplace(before, "127.0.0.1", "localhost"), resp.LastKnownState)
	require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp, "the address must be recorded before the deletion, after which it is no longer known")

	m.Machine.Annotations = map[string]string{spi.AnnotationAddress: resp.LastKnownState}
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.RequireGone(t, m.Name())
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m), "the machine is gone, and its address is the recorded one")
}

// showLongNames gives machines of the predecessor names that are not DNS labels.
func showLongNames(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	tags := map[string]string{"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node"}
	neighbour := s.NewMachine("zone-x", harness.EphemeralRoot)
	require.Equal(t, codes.OK, tr.create(t.Context(), d, neighbour))

	for _, name := range []string{s.Name + ".dotted", s.Name + "-" + strings.Repeat("l", 70)} {
		m := s.NewMachine("zone-x", harness.EphemeralRoot)
		m.Machine.Name = name
		m.Machine.Spec.ProviderID = "kubevirt://" + name
		s.CreateHaltedVM(t, name, tags)

		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m))
		require.Equal(t, codes.Uninitialized, harness.CodeOf(second(m.Status(t.Context(), d))), "the machine exists")
		require.Equal(t, codes.OK, tr.initialize(t.Context(), d, m))

		listed, err := m.List(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, name, listed["kubevirt://"+name])

		require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
		s.RequireGone(t, name)
		require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
		require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	}

	_, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), neighbour.Name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err, "no selector without a name")
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, neighbour))
}

func second[T any](_ T, err error) error { return err }

// TestRecordIsOfOneMachine checks that no other Machine of the same name gets the record.
func TestRecordIsOfOneMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	s.RegisterMachine(t, m)

	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)
	patch := []byte(`{"metadata":{"uid":"` + string(m.Machine.UID) + `","annotations":{"a":"b"}}}`)
	_, err := machines.Patch(t.Context(), m.Name(), types.MergePatchType, patch, metav1.PatchOptions{})
	require.Error(t, err, "the server gave the Machine another UID")
	t.Log(err)
}
