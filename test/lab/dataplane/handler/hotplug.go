// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// attachVolumes attaches and detaches the volumes of a running guest, as virt-handler does (updateHotplugVolumeStatus in
// KubeVirt's pkg/virt-handler/vm.go). virt-controller has mounted them on the node by a pod, which it deletes
// when they are unmounted. The simulated guest gets and releases a disk at once.
func attachVolumes(instance *kubevirtv1.VirtualMachineInstance) {
	for i := range instance.Status.VolumeStatus {
		status := &instance.Status.VolumeStatus[i]
		if status.HotplugVolume == nil {
			continue
		}
		wanted := slices.ContainsFunc(instance.Spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == status.Name })
		switch {
		case wanted && status.Phase == kubevirtv1.HotplugVolumeAttachedToNode:
			status.Phase = kubevirtv1.VolumeReady
			status.Target = nextDisk(instance)
			status.Reason = "VolumeReady"
			status.Message = "Successfully attach hotplugged volume " + status.Name + " to VM"
		case !wanted && isMounted(status.Phase):
			status.Phase = kubevirtv1.HotplugVolumeUnMounted
			status.Target = ""
			status.Reason = "VolumeUnMountedFromPod"
			status.Message = "Volume " + status.Name + " has been unmounted from virt-launcher pod"
		}
	}
}

// nextDisk returns the name of the next disk on the bus of hot-plugged volumes.
func nextDisk(instance *kubevirtv1.VirtualMachineInstance) string {
	letter := 'a'
	for _, status := range instance.Status.VolumeStatus {
		if status.HotplugVolume != nil && status.Target != "" {
			letter++
		}
	}
	return "sd" + string(letter)
}

// isMounted reports whether virt-handler has to unmount a volume that is no longer wanted (canUpdateToUnmounted).
func isMounted(phase kubevirtv1.VolumePhase) bool {
	return phase == kubevirtv1.VolumeReady || phase == kubevirtv1.HotplugVolumeMounted || phase == kubevirtv1.HotplugVolumeAttachedToNode
}
