package providercluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// virt-controller accepts a migration at once (phase Pending) and then keeps it in its queue until the cluster and the source node
// have a place for it. From there on it notes every phase with its time (KubeVirt, pkg/virt-controller/watch/migration,
// handleTargetPodCreation and processMigrationPhase): Scheduling once the target's pod exists.

// progress returns, for each node, when KubeVirt last advanced or ended a migration away from it. Only the migrations of this
// identity are seen.
func (e *evacuations) progress() map[string]time.Time {
	progress := map[string]time.Time{}
	note := func(node string, at time.Time) {
		if node != "" {
			progress[node] = latest(progress[node], at)
		}
	}

	for _, object := range e.seenInstances.GetStore().List() {
		instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
		if !ok {
			continue
		}

		// The instance keeps this after its migration has been deleted, and has it for migrations that are not the driver's too.
		if state := instance.Status.MigrationState; state != nil {
			note(state.SourceNode, latest(timeOf(state.StartTimestamp), timeOf(state.EndTimestamp)))
		}

		if node := instance.Status.EvacuationNodeName; node != "" {
			note(node, advanced(e.migration(migrationName(instance.UID, node))))
		}
	}

	return progress
}

// advanced returns when a migration last left or entered a phase outside KubeVirt's queue; zero if it waits there, or is nil.
func advanced(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	return lastTransition(migration, func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) bool {
		return phase != kubevirtv1.MigrationPhaseUnset && phase != kubevirtv1.MigrationPending
	})
}

// handedOff returns when virt-controller handed a migration over to the nodes; zero if it has not noted that.
func handedOff(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	return lastTransition(migration, func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) bool {
		return phase == kubevirtv1.MigrationPreparingTarget
	})
}

func lastTransition(
	migration *kubevirtv1.VirtualMachineInstanceMigration, counts func(kubevirtv1.VirtualMachineInstanceMigrationPhase) bool,
) time.Time {
	var last time.Time

	if migration == nil {
		return last
	}

	for _, transition := range migration.Status.PhaseTransitionTimestamps {
		if counts(transition.Phase) {
			last = latest(last, transition.PhaseTransitionTimestamp.Time)
		}
	}

	return last
}

func timeOf(at *metav1.Time) time.Time {
	if at == nil {
		return time.Time{}
	}

	return at.Time
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
