package integration

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForcedDeletion shows what an operator does with a Machine whose drain does not end: machine-controller-manager deletes its pods,
// whatever their PodDisruptionBudgets say, and detaches its volumes. Before that, Machine and MachineSet lose their owners, as when
// they are restored from a backup, and get them back.
func TestForcedDeletion(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.runControllers(t)
	s.applyCredentials(t)
	s.addPool(t, s.Name, 1, s.spec("zone-a", ephemeralRoot))

	victim := slices.Collect(maps.Keys(s.awaitRunning(t, 1)))[0]
	s.requireAdoption(t, victim)

	app := application{name: s.Name, pool: s.Name, replicas: 1}
	s.run(t, app)
	s.attachVolume(t, victim)

	s.patchMachine(t, victim, `{"metadata":{"labels":{"force-deletion":"True"}}}`)
	require.NoError(t, s.mcm.MachineV1alpha1().Machines(s.Namespace).Delete(t.Context(), victim, metav1.DeleteOptions{}))
	eventually(t, "the Machine is gone", func(ctx context.Context) (bool, error) {
		_, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Get(ctx, victim, metav1.GetOptions{})

		return apierrors.IsNotFound(err), nil
	})

	_, err := s.target.StorageV1().VolumeAttachments().Get(t.Context(), victim, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "its volume is detached")

	s.stop(t, app)
	s.awaitEnd(t)
}

// requireAdoption takes the owners of a Machine and of its MachineSet away, and waits until they have them again.
func (s *shoot) requireAdoption(t *testing.T, machine string) {
	t.Helper()

	const orphaned = `{"metadata":{"ownerReferences":null}}`

	sets := s.mcm.MachineV1alpha1().MachineSets(s.Namespace)
	list, err := sets.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	set := list.Items[0].Name
	s.patchMachine(t, machine, orphaned)
	_, err = sets.Patch(t.Context(), set, types.MergePatchType, []byte(orphaned), metav1.PatchOptions{})
	require.NoError(t, err)

	eventually(t, "both have owners again", func(ctx context.Context) (bool, error) {
		m, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Get(ctx, machine, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		owned, err := sets.Get(ctx, set, metav1.GetOptions{})

		return err == nil && metav1.GetControllerOf(m) != nil && metav1.GetControllerOf(owned) != nil, err
	})
}

func (s *shoot) patchMachine(t *testing.T, name, patch string) {
	t.Helper()

	_, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// attachVolume makes the Node of a machine look as if it had a volume, under the machine's name.
func (s *shoot) attachVolume(t *testing.T, machine string) {
	t.Helper()

	_, err := s.target.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: machine},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.kubevirt.io", NodeName: machine, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("volume")},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	attached := []byte(`{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/csi.kubevirt.io^volume","devicePath":""}]}}`)
	_, err = s.target.CoreV1().Nodes().Patch(t.Context(), machine, types.MergePatchType, attached, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}
