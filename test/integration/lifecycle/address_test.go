// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestMovedNamespaceKeepsMachines changes the kubeconfig's namespace while a Machine exists,
// deletes the Machine, and then restores the kubeconfig. machine-controller-manager must keep the
// Machine and its Node until the VirtualMachine is gone.
func TestMovedNamespaceKeepsMachines(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	elsewhere := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 1, s.Spec("zone-a", harness.EphemeralRoot))

	name := theOnly(s.AwaitRunning(t, 1))

	requireRecorded(t, s, name)
	replaceKubeconfig(t, s, elsewhere.ProviderKubeconfig)
	s.Scale(t, s.Name, 0)
	awaitEvent(t, s, name, "AddressChanged")

	require.NotNil(t, machineObject(t, s, name).DeletionTimestamp)
	require.Nil(t, s.VM(t, name).DeletionTimestamp)
	_, err := s.Target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "pods would still be scheduled to a Node without a Machine")

	replaceKubeconfig(t, s, s.ProviderKubeconfig)
	s.KillSidecar(t) // A new process retries at once, the present one only after ten minutes.
	awaitNoMachines(t, s)
	s.RequireNothingLeft(t)
}

func theOnly[V any](of map[string]V) (name string) {
	for name = range of {
		return name
	}

	return ""
}

// replaceKubeconfig stores another kubeconfig in the Secret of the MachineClasses.
func replaceKubeconfig(t *testing.T, s *harness.Shoot, kubeconfig []byte) {
	t.Helper()

	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"kubeconfig": kubeconfig}})
	require.NoError(t, err)
	_, err = s.Target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// awaitEvent waits for an Event on a Machine, and fails if the Machine disappears meanwhile.
func awaitEvent(t *testing.T, s *harness.Shoot, machine, reason string) *corev1.Event {
	t.Helper()

	var found *corev1.Event

	harness.Eventually(t, machine+" has the Event "+reason, func(ctx context.Context) (bool, error) {
		_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, machine, metav1.GetOptions{})
		require.False(t, apierrors.IsNotFound(err), "the Machine is gone")

		events, err := s.Target.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Machine,involvedObject.name=" + machine + ",reason=" + reason,
		})
		if err != nil || len(events.Items) == 0 {
			return false, err
		}

		found = &events.Items[0]

		return true, nil
	})

	return found
}

func machineObject(t *testing.T, s *harness.Shoot, name string) *v1alpha1.Machine {
	t.Helper()

	found, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	return found
}

func awaitNoMachines(t *testing.T, s *harness.Shoot) {
	t.Helper()

	harness.Eventually(t, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}

		return len(list.Items) == 0, err
	})
}

// TestEditedTagsKeepMachines edits the cluster tag of a class that has a Machine, deletes the
// Machine, and then abandons it.
func TestEditedTagsKeepMachines(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 1, s.Spec("zone-a", harness.EphemeralRoot))

	name := theOnly(s.AwaitRunning(t, 1))
	requireRecorded(t, s, name)

	patch := []byte(`{"providerSpec":{"tags":{"mcm.gardener.cloud/cluster":"edited"}}}`)
	_, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), s.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.Scale(t, s.Name, 0)

	event := awaitEvent(t, s, name, "AddressChanged")
	require.Contains(t, event.Message, "restore the tags of the MachineClass")
	require.NotNil(t, machineObject(t, s, name).DeletionTimestamp)

	diagnosed, code := s.DiagnoseMachine(t.Context(), t, name)
	require.Equal(t, 1, code)
	require.Equal(t, "AddressChanged", diagnosed.Cause.Reason)
	require.Contains(t, diagnosed.Cause.Remedy, "kubectl annotate --overwrite machine "+name)

	annotateMachine(t, s, name, spi.AddressAbandoned)
	s.KillSidecar(t)
	awaitNoMachines(t, s)
	require.Nil(t, s.VM(t, name).DeletionTimestamp, "an abandoned machine is not changed")
}

// TestRecordFollowsAMove makes the cluster reachable under another name: machines are unaffected,
// and their records are updated to the new address.
func TestRecordFollowsAMove(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 2, s.Spec("zone-a", harness.EphemeralRoot))

	names := slices.Sorted(maps.Keys(s.AwaitRunning(t, 2)))
	for _, name := range names {
		requireRecorded(t, s, name)
	}

	moved := []byte(harness.MustReplace(string(s.ProviderKubeconfig), "https://127.0.0.1:", "https://localhost:"))
	replaceKubeconfig(t, s, moved)

	// The first Machine is deleted before any listing reports its address. Its
	// deletion makes machine-controller-manager list the machines, which reports the
	// second one at its new address.
	patch := []byte(`{"metadata":{"annotations":{"machinepriority.machine.sapcloud.io":"1"}}}`)
	_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), names[0], types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.Scale(t, s.Name, 1)
	s.AwaitRunning(t, 1)

	harness.Eventually(t, "the record has the new address", func(ctx context.Context) (bool, error) {
		found, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, names[1], metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		return strings.Contains(spi.RecordedAddressOf(found.Annotations).Server, "localhost"), nil
	})

	s.AwaitEnd(t)
}

// TestRecordsAreCompleted checks that a Machine of an earlier version gets its record once
// the machines are listed.
func TestRecordsAreCompleted(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 1, s.Spec("zone-a", harness.EphemeralRoot))

	name := theOnly(s.AwaitRunning(t, 1))
	requireRecorded(t, s, name)

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, spi.AnnotationAddress)
	_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)

	s.KillSidecar(t) // The next process lists the machines at once.
	harness.Eventually(t, "the record is complete", func(ctx context.Context) (bool, error) {
		found, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, name, metav1.GetOptions{})

		return err == nil && found.Annotations[spi.AnnotationAddress] != "", err
	})
	requireRecorded(t, s, name)
	s.AwaitEnd(t)
}

// requireRecorded requires that a Machine records the address of its VirtualMachine.
func requireRecorded(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	recorded := spi.RecordedAddressOf(machineObject(t, s, name).Annotations)
	require.NotNil(t, recorded)
	require.Empty(t, recorded.Fault)
	require.Equal(t, s.VM(t, name).UID, recorded.UID)
	require.Equal(t, s.ProviderNamespace, recorded.Namespace)
	require.Equal(t, s.Namespace, recorded.Cluster)
	require.Equal(t, "node", recorded.Role)
}

func annotateMachine(t *testing.T, s *harness.Shoot, name, value string) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, spi.AnnotationAddress, value)
	_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
