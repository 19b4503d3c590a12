package evacuations

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// virt-controller accepts a migration immediately (phase Pending), and queues it until the limits
// of the cluster and of the source node permit it to run. From then on it records the time of every
// phase, beginning with Scheduling when the target pod exists (KubeVirt,
// pkg/virt-controller/watch/migration, handleTargetPodCreation and processMigrationPhase).

// migrationProgress returns, for each node, when KubeVirt last advanced or ended a migration away
// from it. It covers only the migrations of this identity.
func (e *evacuations) migrationProgress() map[string]time.Time {
	progress := map[string]time.Time{}
	update := func(node string, at time.Time) {
		if node != "" {
			progress[node] = latest(progress[node], at)
		}
	}

	for _, object := range e.instanceInformer.GetStore().List() {
		instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
		if !ok {
			continue
		}

		// The instance keeps this state after its migration has been deleted. It also has the state of
		// migrations that the driver did not request.
		if state := instance.Status.MigrationState; state != nil {
			update(state.SourceNode, latest(timeOf(state.StartTimestamp), timeOf(state.EndTimestamp)))
		}

		if node := instance.Status.EvacuationNodeName; node != "" {
			update(node, lastAdvance(e.migration(migrationName(instance.UID, node))))
		}
	}

	return progress
}

// lastAdvance returns when a migration last entered a phase other than waiting in KubeVirt's queue;
// zero if it is still queued, or nil.
func lastAdvance(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	return lastTransition(migration, func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) bool {
		return phase != kubevirtv1.MigrationPhaseUnset && phase != kubevirtv1.MigrationPending
	})
}

// handOffTime returns when virt-controller handed a migration over to the nodes; zero if it has not
// recorded that.
func handOffTime(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	return lastTransition(migration, func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) bool {
		return phase == kubevirtv1.MigrationPreparingTarget
	})
}

// lastTransition returns when a migration last entered one of the matching phases.
func lastTransition(
	migration *kubevirtv1.VirtualMachineInstanceMigration, matches func(kubevirtv1.VirtualMachineInstanceMigrationPhase) bool,
) time.Time {
	var last time.Time

	if migration == nil {
		return last
	}

	for _, transition := range migration.Status.PhaseTransitionTimestamps {
		if matches(transition.Phase) {
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
