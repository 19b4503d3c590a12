// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

func testInstance() *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vm", UID: "uid"},
		Spec: kubevirtv1.VirtualMachineInstanceSpec{
			Networks: []kubevirtv1.Network{
				{Name: "default", NetworkSource: kubevirtv1.NetworkSource{Pod: &kubevirtv1.PodNetwork{}}},
				{Name: "storage", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: "x"}}},
			},
			Domain: kubevirtv1.DomainSpec{Devices: kubevirtv1.Devices{Interfaces: []kubevirtv1.Interface{
				{
					Name: "default",
					InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{
						Masquerade: &kubevirtv1.InterfaceMasquerade{},
					},
				},
				{
					Name:       "storage",
					MacAddress: "02:00:00:00:00:42",
					InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{
						Bridge: &kubevirtv1.InterfaceBridge{},
					},
				},
			}}},
			Volumes: []kubevirtv1.Volume{{
				Name: "root",
				VolumeSource: kubevirtv1.VolumeSource{
					DataVolume: &kubevirtv1.DataVolumeSource{Name: "vm-root"},
				},
			}},
		},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: kubevirtv1.Scheduled,
			VolumeStatus: []kubevirtv1.VolumeStatus{{
				Name: "root",
				PersistentVolumeClaimInfo: &kubevirtv1.PersistentVolumeClaimInfo{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
				},
			}},
		},
	}
}

func TestInterfaceStatuses(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	instance.Status.Interfaces = []kubevirtv1.VirtualMachineInstanceNetworkInterface{
		{Name: "storage", InfoSource: "multus-status", PodInterfaceName: "pod1"},
	}
	statuses := interfaceStatuses(instance, "10.244.0.9", true)
	require.Len(t, statuses, 4)
	require.Equal(t, "10.244.0.9", statuses[0].IP)
	require.Regexp(t, `^02(:[0-9a-f]{2}){5}$`, statuses[0].MAC)
	require.Equal(t, "02:00:00:00:00:42", statuses[1].MAC)
	require.Empty(t, statuses[1].IP, "the simulation assigns no addresses on secondary networks")
	require.Equal(t, "pod1", statuses[1].PodInterfaceName)
	require.Contains(t, statuses[1].InfoSource, "multus-status")

	instance.Status.Interfaces = statuses
	require.Equal(t, statuses, interfaceStatuses(instance, "10.244.0.9", true), "the statuses are stable")
	require.Len(t, interfaceStatuses(instance, "10.244.0.9", false), 2, "without an agent, those of the spec")
}

func TestMigrationConditions(t *testing.T) {
	t.Parallel()
	bridge := func(i *kubevirtv1.VirtualMachineInstance) {
		i.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = kubevirtv1.InterfaceBindingMethod{
			Bridge: &kubevirtv1.InterfaceBridge{},
		}
	}
	for name, tc := range map[string]struct {
		change  func(*kubevirtv1.VirtualMachineInstance)
		reason  string
		storage corev1.ConditionStatus
	}{
		"Shared": {change: func(*kubevirtv1.VirtualMachineInstance) {}, storage: corev1.ConditionTrue},
		"ReadWriteOnce": {
			change: func(i *kubevirtv1.VirtualMachineInstance) {
				i.Status.VolumeStatus[0].PersistentVolumeClaimInfo.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			},
			reason:  "DisksNotLiveMigratable",
			storage: corev1.ConditionTrue,
		},
		"Bridge": {change: bridge, reason: "InterfaceNotLiveMigratable", storage: corev1.ConditionFalse},
		"BridgeAllowed": {
			change: func(i *kubevirtv1.VirtualMachineInstance) {
				bridge(i)
				i.Annotations = map[string]string{kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation: ""}
			},
			storage: corev1.ConditionTrue,
		},
		"GPU": {
			change: func(i *kubevirtv1.VirtualMachineInstance) {
				i.Spec.Domain.Devices.GPUs = []kubevirtv1.GPU{{Name: "gpu"}}
			},
			reason:  "HostDeviceNotLiveMigratable",
			storage: corev1.ConditionFalse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instance := testInstance()
			tc.change(instance)
			conditions := migrationConditions(instance)
			require.Equal(t, tc.reason, conditions[0].Reason)
			require.Equal(t, tc.reason == "", conditions[0].Status == corev1.ConditionTrue)
			require.Equal(t, tc.storage, conditions[1].Status)
		})
	}
}

func TestDeviceObstacle(t *testing.T) {
	t.Parallel()
	gpu := kubevirtv1.GPU{Name: "gpu"}
	one := kubevirtv1.Devices{GPUs: []kubevirtv1.GPU{gpu}}
	two := kubevirtv1.Devices{GPUs: []kubevirtv1.GPU{gpu, gpu}}
	card := kubevirtv1.Devices{HostDevices: []kubevirtv1.HostDevice{{Name: "card"}}}
	for want, tc := range map[string]struct {
		version string
		devices kubevirtv1.Devices
	}{
		"":                            {version: "v1.9.0"},
		"VMI uses a PCI host devices": {version: "v1.8.4", devices: one},
		"VMI specifies a GPU but feature gate VGPULiveMigration is not enabled": {version: "v1.9.0", devices: one},
		"VMI specifies too many GPUs":                                           {version: "v1.9.0", devices: two},
		"VMI specifies non-migratable generic PCI host device":                  {version: "v1.9.0", devices: card},
	} {
		instance := testInstance()
		instance.Spec.Domain.Devices = tc.devices
		instance.Status.LauncherContainerImageVersion = "lab.local/virt-launcher:" + tc.version
		require.Equal(t, want, deviceObstacle(instance))
	}
}

func TestShutdownRequest(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	deleted := metav1.NewTime(at.Add(time.Minute))
	seconds := int64(60)
	evicted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		DeletionTimestamp:          &deleted,
		DeletionGracePeriodSeconds: &seconds,
	}}
	_, asked := shutdownRequest(testInstance(), &corev1.Pod{})
	require.False(t, asked)
	since, asked := shutdownRequest(testInstance(), evicted)
	require.True(t, asked)
	require.Equal(t, at, since, "a pod's deletion timestamp is the end of its grace")
}

func TestPhaseSince(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	instance.CreationTimestamp = metav1.NewTime(at)
	require.Equal(t, at, cluster.PhaseSince(instance, kubevirtv1.Running))
	setPhase(instance, kubevirtv1.Running, at.Add(time.Second))
	require.Equal(t, kubevirtv1.Running, instance.Status.Phase)
	require.Equal(t, at.Add(time.Second), cluster.PhaseSince(instance, kubevirtv1.Running))
}
