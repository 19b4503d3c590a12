// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// InstanceKey returns namespace/name.
func InstanceKey(instance *kubevirtv1.VirtualMachineInstance) string {
	return instance.Namespace + "/" + instance.Name
}

// ClaimName returns the PersistentVolumeClaim behind a volume, or "".
func ClaimName(volume kubevirtv1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	default:
		return ""
	}
}

// PhaseSince returns when a phase was last reached, or the creation time if
// KubeVirt has not recorded it.
func PhaseSince(instance *kubevirtv1.VirtualMachineInstance, phase kubevirtv1.VirtualMachineInstancePhase) time.Time {
	since := instance.CreationTimestamp.Time
	for _, transition := range instance.Status.PhaseTransitionTimestamps {
		if transition.Phase == phase {
			since = transition.PhaseTransitionTimestamp.Time
		}
	}
	return since
}

// IsMigrationOver reports whether virt-handler has reported a migration as succeeded or failed.
func IsMigrationOver(state *kubevirtv1.VirtualMachineInstanceMigrationState) bool {
	return state.EndTimestamp != nil && (state.Completed || state.Failed)
}

// MigratedFrom reports whether an instance's last migration moved it from a node to its current
// one.
func MigratedFrom(instance *kubevirtv1.VirtualMachineInstance, from string) bool {
	state := instance.Status.MigrationState
	return state != nil && IsMigrationOver(state) && !state.Failed &&
		state.SourceNode == from && state.TargetNode == instance.Status.NodeName
}
