// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestMaxKept_LargeMachine accepts the largest objects that are expected of a provider cluster, with a quarter of the
// bound to spare.
func TestMaxKept_LargeMachine(t *testing.T) {
	t.Parallel()

	for name, object := range map[string]any{"VirtualMachine": largeVirtualMachine(), "VirtualMachineInstance": largeInstance()} {
		text, err := json.Marshal(object)
		require.NoError(t, err)

		cost, err := estimate(text)
		require.NoError(t, err)
		t.Logf("%s: %d KiB of text, %d KiB of memory", name, len(text)>>10, cost>>10)
		require.Less(t, cost, int64(maxKept*3/4), name)
	}
}

// largeVirtualMachine has 12 disks, 60 conditions, and annotations of 60 KiB.
func largeVirtualMachine() *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Name:            strings.Repeat("m", 63),
		Namespace:       "machines",
		UID:             "3f0e6a5e-7f0c-4d2c-9d57-5cbb0c1e7a6b",
		ResourceVersion: "123456789",
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 60<<10)},
		Labels:          map[string]string{},
	}}

	for i := range 30 {
		vm.Labels[fmt.Sprintf("label-%d.example.com/name", i)] = strings.Repeat("v", 40)
	}

	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: largeSpec()}

	for i := range 12 {
		vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, kubevirtv1.DataVolumeTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", vm.Name, i), Labels: vm.Labels},
		})
		vm.Status.VolumeSnapshotStatuses = append(vm.Status.VolumeSnapshotStatuses, kubevirtv1.VolumeSnapshotStatus{Name: "disk", Reason: strings.Repeat("r", 100)})
	}

	for i := range 60 {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{
			Type:               kubevirtv1.VirtualMachineConditionType(fmt.Sprintf("Condition%d", i)),
			Status:             "True",
			LastProbeTime:      metav1.Now(),
			LastTransitionTime: metav1.Now(),
			Reason:             strings.Repeat("r", 30),
			Message:            strings.Repeat("m", 300),
		})
	}

	vm.ManagedFields = managers(8)

	return vm
}

// largeInstance has the disks of a large machine, and the interfaces of 250 pods.
func largeInstance() *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: largeVirtualMachine().ObjectMeta, Spec: largeSpec()}
	vmi.Annotations = nil

	for i := range 250 {
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, kubevirtv1.VirtualMachineInstanceNetworkInterface{
			InterfaceName: fmt.Sprintf("cali%011d", i),
			MAC:           "ee:ee:ee:ee:ee:ee",
			InfoSource:    "guest-agent",
			IP:            "fe80::ecee:eeff:feee:eeee",
			IPs:           []string{"fe80::ecee:eeff:feee:eeee"},
			QueueCount:    1,
		})
	}

	for range 12 {
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, kubevirtv1.VolumeStatus{
			Name:                      "disk",
			Target:                    "vda",
			PersistentVolumeClaimInfo: &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: "claim"},
		})
	}

	return vmi
}

func largeSpec() kubevirtv1.VirtualMachineInstanceSpec {
	var spec kubevirtv1.VirtualMachineInstanceSpec

	for i := range 12 {
		name := fmt.Sprintf("disk-%d", i)
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{
			Name:       name,
			DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: "virtio"}},
			Serial:     name,
		})
		spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: name, VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: name}}})
	}

	return spec
}

// managers are the entries of many clients that each set a hundred fields.
func managers(many int) (all []metav1.ManagedFieldsEntry) {
	fields := map[string]any{}
	for i := range 100 {
		fields[fmt.Sprintf("f:field%d", i)] = map[string]any{}
	}

	raw, err := json.Marshal(map[string]any{"f:spec": fields})
	if err != nil {
		panic(err)
	}

	now := metav1.NewTime(time.Unix(0, 0))
	for i := range many {
		all = append(all, metav1.ManagedFieldsEntry{
			Manager:    fmt.Sprintf("manager-%d", i),
			Operation:  metav1.ManagedFieldsOperationUpdate,
			APIVersion: "kubevirt.io/v1",
			Time:       &now,
			FieldsType: "FieldsV1",
			FieldsV1:   &metav1.FieldsV1{Raw: raw},
		})
	}

	return all
}
