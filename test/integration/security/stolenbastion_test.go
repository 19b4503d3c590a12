// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// requireConfinedBastions creates bastions that are more than a virtual machine with an image.
func (h *thief) requireConfinedBastions(t *testing.T, worker *kubevirtv1.VirtualMachine) {
	t.Helper()

	volume := func(source kubevirtv1.VolumeSource) func(*kubevirtv1.VirtualMachine) {
		return func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Template.Spec.Volumes[0].VolumeSource = source }
	}

	for name, tc := range map[string]struct {
		change func(*kubevirtv1.VirtualMachine)
		says   string
	}{
		"a bastion": {change: func(*kubevirtv1.VirtualMachine) {}},
		"host disk": {
			change: volume(kubevirtv1.VolumeSource{HostDisk: &kubevirtv1.HostDisk{Path: "/disk.img", Type: kubevirtv1.HostDiskExists}}), says: "bastions must have",
		},
		"claim": {change: volume(kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "admins"}}), says: "bastions must have"},
		"adopted claim": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.DataVolumeTemplates = worker.DeepCopy().Spec.DataVolumeTemplates
			for i := range vm.Spec.DataVolumeTemplates { // A worker may have a disk of this name.
				vm.Spec.DataVolumeTemplates[i].Name = render.DataVolumeName(vm.Name, worker.UID, "root")
			}
		}, says: "bastions must have"},
		"GPU": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Devices.GPUs = []kubevirtv1.GPU{{Name: "a", DeviceName: "vendor.com/gpu"}}
		}, says: "host devices"},
		"no label in the template": {change: func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels = nil }, says: "bastions must have"},
		"a worker in the template": {change: func(vm *kubevirtv1.VirtualMachine) {
			maps.Copy(vm.Spec.Template.ObjectMeta.Labels, h.tags(nil))
		}, says: "bastions no tags of workers"},
		"no shoot in the template": {change: func(vm *kubevirtv1.VirtualMachine) {
			delete(vm.Spec.Template.ObjectMeta.Labels, ofBastion()[0])
		}, says: "bastions must have"},
		"instancetype": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "gpu"}
		}, says: "bastions must have"},
		"another network": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Networks = []kubevirtv1.Network{{
				Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: "storage"}},
			}}
		}, says: "bastions must have"},
		"annotation of a network": {change: func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"ovn.kubernetes.io/logical_switch": "bank"}
		}, says: "other networks"},
		"no shoot": {change: func(vm *kubevirtv1.VirtualMachine) { delete(vm.Labels, ofBastion()[0]) }, says: "mcm.gardener.cloud/cluster"},
	} {
		vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "stolen-bastion"}, Spec: *worker.Spec.DeepCopy()}
		asBastion(vm)
		tc.change(vm)

		_, err := h.kubevirt.KubevirtV1().VirtualMachines(h.ProviderNamespace).Create(t.Context(), vm, harness.DryRun)
		if tc.says == "" {
			require.NoError(t, err, name)
		} else {
			t.Log(name)
			requireRefused(t, err, tc.says)
		}
	}
}

// ofBastion returns the labels of the objects of a bastion.
func ofBastion() []string {
	return []string{"kubevirt.provider.extensions.gardener.cloud/cluster", "kubevirt.provider.extensions.gardener.cloud/bastion"}
}

// asBastion makes a worker a bastion of Gardener's extension.
func asBastion(vm *kubevirtv1.VirtualMachine) {
	vm.Labels = map[string]string{}
	for _, label := range ofBastion() {
		vm.Labels[label] = "stolen"
	}

	template := vm.Spec.Template
	template.ObjectMeta.Labels = maps.Clone(vm.Labels)
	template.Spec.Domain.Devices.Disks = template.Spec.Domain.Devices.Disks[:1]
	template.Spec.Volumes = []kubevirtv1.Volume{{
		Name: template.Spec.Domain.Devices.Disks[0].Name, VolumeSource: kubevirtv1.VolumeSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "x"}},
	}}
	vm.Spec.DataVolumeTemplates = nil
}

// requireNoBorrowedDevices uses an instancetype of the administrator with a GPU, which does not
// appear in the VirtualMachine.
func (h *thief) requireNoBorrowedDevices(t *testing.T, worker *kubevirtv1.VirtualMachine) {
	t.Helper()

	_, err := h.Shoot.KubeVirt.InstancetypeV1beta1().VirtualMachineInstancetypes(h.ProviderNamespace).Create(t.Context(),
		&instancetypev1beta1.VirtualMachineInstancetype{
			ObjectMeta: metav1.ObjectMeta{Name: h.name + "-gpu"},
			Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU:    instancetypev1beta1.CPUInstancetype{Guest: 1},
				Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("1Gi")},
				GPUs:   []kubevirtv1.GPU{{Name: "a", DeviceName: "vendor.com/gpu"}},
			},
		}, metav1.CreateOptions{})
	require.NoError(t, err)

	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: h.name + "-borrower", Labels: worker.DeepCopy().Labels}, Spec: *worker.Spec.DeepCopy()}
	spec := &vm.Spec.Template.Spec
	vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: h.name + "-gpu", Kind: "VirtualMachineInstancetype"}
	vm.Spec.DataVolumeTemplates, spec.Volumes, spec.Domain.Devices.Disks = nil, nil, nil
	spec.Domain.CPU, spec.Domain.Memory, spec.Domain.Resources = nil, nil, kubevirtv1.ResourceRequirements{}

	vms := h.kubevirt.KubevirtV1().VirtualMachines(h.ProviderNamespace)
	_, err = vms.Create(t.Context(), vm, metav1.CreateOptions{})
	require.NoError(t, err)
	// The VirtualMachine's condition keeps the first failure, which may be a transient one.
	harness.Eventually(t, "virt-controller is refused the instance", func(ctx context.Context) (bool, error) {
		events, err := h.Shoot.Kube.CoreV1().Events(h.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + vm.Name})
		if err != nil {
			return false, err
		}

		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "workers may have host devices and GPUs only if their namespace is labelled")
		}), nil
	})
	require.NoError(t, vms.Delete(t.Context(), vm.Name, metav1.DeleteOptions{}))
}
