// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// SetFinalizers replaces the finalizers of a VirtualMachine.
func (s *Shoot) SetFinalizers(t *testing.T, name string, finalizers ...string) {
	t.Helper()

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	require.NoError(t, err)
	_, err = s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// DeleteWithoutInstance deletes a VirtualMachine and leaves its instance.
func (s *Shoot) DeleteWithoutInstance(t *testing.T, name string) {
	t.Helper()

	vms := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	require.NoError(t, vms.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	Eventually(t, "the VirtualMachine is gone", func(ctx context.Context) (bool, error) {
		_, err := vms.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})

	_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "the guest must keep running")
}

// RequireInZone requires that a machine runs in a zone.
func (s *Shoot) RequireInZone(t *testing.T, name, zone string) {
	t.Helper()

	instance, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	node, err := s.Kube.CoreV1().Nodes().Get(t.Context(), instance.Status.NodeName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, zone, node.Labels[corev1.LabelTopologyZone])
}

// MakeRoom labels a host so that it matches the machines' node selector.
func (s *Shoot) MakeRoom(t *testing.T, label string) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, label)
	_, err := s.Kube.CoreV1().Nodes().Patch(t.Context(), "provider-a-0", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// CreateHaltedVM creates a VirtualMachine that is never started.
func (s *Shoot) CreateHaltedVM(t *testing.T, name string, labels map[string]string) {
	t.Helper()

	_, err := s.MakeHaltedVM(t.Context(), name, labels)
	require.NoError(t, err)
}

// MakeHaltedVM creates a VirtualMachine that is never started, and returns its UID.
func (s *Shoot) MakeHaltedVM(ctx context.Context, name string, labels map[string]string) (types.UID, error) {
	vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(ctx, &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}

	return vm.UID, nil
}

// VM returns a VirtualMachine of the shoot.
func (s *Shoot) VM(t *testing.T, name string) *kubevirtv1.VirtualMachine {
	t.Helper()

	vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	return vm
}

// MakeInstancetype creates objects that some specs refer to. Other specs refer to missing objects,
// which KubeVirt accepts too.
func (s *Shoot) MakeInstancetype(t *testing.T) {
	t.Helper()

	instancetypes := s.KubeVirt.InstancetypeV1beta1()

	_, err := instancetypes.VirtualMachineInstancetypes(s.ProviderNamespace).Create(t.Context(), &instancetypev1beta1.VirtualMachineInstancetype{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU:    instancetypev1beta1.CPUInstancetype{Guest: 2},
			Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi")},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = instancetypes.VirtualMachinePreferences(s.ProviderNamespace).Create(t.Context(), &instancetypev1beta1.VirtualMachinePreference{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// FewAtATime is the number of concurrent creations when there are thousands.
const FewAtATime = 16

// ForEach calls do for each index, with limited concurrency, until all calls have
// succeeded or one has failed.
func ForEach(t *testing.T, many, atATime int, do func(ctx context.Context, i int) error) {
	t.Helper()

	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atATime)

	for i := range many {
		group.Go(func() error { return do(ctx, i) })
	}

	require.NoError(t, group.Wait())
}

// CreateHaltedVMs creates VirtualMachines of the shoot that are never started, and others of
// another shoot in the same namespace.
func (s *Shoot) CreateHaltedVMs(t *testing.T, many, others int) {
	t.Helper()

	halted := func(ctx context.Context, name, cluster string) error {
		_, err := s.MakeHaltedVM(ctx, name, map[string]string{"mcm.gardener.cloud/cluster": cluster, "mcm.gardener.cloud/role": "node"})

		return err
	}

	ForEach(t, many, FewAtATime, func(ctx context.Context, i int) error { return halted(ctx, fmt.Sprintf("m-%d", i), s.Namespace) })
	ForEach(t, others, FewAtATime, func(ctx context.Context, i int) error { return halted(ctx, fmt.Sprintf("o-%d", i), s.Namespace+"-b") })
}
