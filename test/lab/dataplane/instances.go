package dataplane

import (
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// instanceKey returns namespace/name.
func instanceKey(instance *kubevirtv1.VirtualMachineInstance) string {
	return instance.Namespace + "/" + instance.Name
}

// claimName returns the PersistentVolumeClaim behind a volume, or "".
func claimName(volume kubevirtv1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	default:
		return ""
	}
}

// phaseSince returns when a phase was last reached, or the creation time if
// KubeVirt has not recorded it.
func phaseSince(instance *kubevirtv1.VirtualMachineInstance, phase kubevirtv1.VirtualMachineInstancePhase) time.Time {
	since := instance.CreationTimestamp.Time
	for _, transition := range instance.Status.PhaseTransitionTimestamps {
		if transition.Phase == phase {
			since = transition.PhaseTransitionTimestamp.Time
		}
	}
	return since
}

// isMigrationOver reports whether virt-handler has reported a migration as succeeded or failed.
func isMigrationOver(state *kubevirtv1.VirtualMachineInstanceMigrationState) bool {
	return state.EndTimestamp != nil && (state.Completed || state.Failed)
}

// migratedFrom reports whether an instance's last migration moved it from a node to its current
// one.
func migratedFrom(instance *kubevirtv1.VirtualMachineInstance, from string) bool {
	state := instance.Status.MigrationState
	return state != nil && isMigrationOver(state) && !state.Failed &&
		state.SourceNode == from && state.TargetNode == instance.Status.NodeName
}
