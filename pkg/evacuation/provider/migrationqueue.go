// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// virt-controller accepts a migration immediately (phase Pending), and queues it until the limits
// of the cluster and of the source node permit it to run. From then on it records the time of every
// phase, beginning with Scheduling when the target pod exists (KubeVirt,
// pkg/virt-controller/watch/migration, handleTargetPodCreation and processMigrationPhase).

// migrationProgress returns, for each node, when KubeVirt last advanced or ended a migration away
// from it. It covers only the migrations of this identity. The time is in the future while a
// migration may still be copying memory, since KubeVirt records nothing in the meantime.
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

		// The instance keeps this state after its migration has been deleted. The state may also come
		// from a foreign migration.
		if state := instance.Status.MigrationState; state != nil {
			update(state.SourceNode, latest(timeOf(state.StartTimestamp), timeOf(state.EndTimestamp)))

			if isInProgress(state) {
				update(state.SourceNode, state.StartTimestamp.Add(copyLimit(instance)))
			}
		}

		if node := instance.Status.EvacuationNodeName; node != "" {
			update(node, lastAdvance(e.migration(migrationName(instance.UID, node))))
		}
	}

	return progress
}

// isQueued reports whether the migration of a marked instance waits only for foreign migrations:
// virt-controller has accepted it and does not report an obstacle, such as a ResourceQuota.
// virt-controller records nothing else while a migration is queued. Since KubeVirt 1.9, the wait can
// be long: migrations with a priority, which only virt-controller may set, have precedence
// (pkg/util/migrations).
func (e *evacuations) isQueued(instance *kubevirtv1.VirtualMachineInstance, busy map[string]bool) bool {
	node := instance.Status.EvacuationNodeName
	migration := e.migration(migrationName(instance.UID, node))

	return migration != nil && migration.Status.Phase == kubevirtv1.MigrationPending && !busy[node] &&
		!slices.ContainsFunc(migration.Status.Conditions, func(condition kubevirtv1.VirtualMachineInstanceMigrationCondition) bool {
			return condition.Status == corev1.ConditionTrue
		})
}

// busyNodes returns the source nodes of migrations of this identity that are in progress. Queued
// migrations of the same node may be waiting for them.
func (e *evacuations) busyNodes() map[string]bool {
	busy := map[string]bool{}

	for _, object := range e.instanceInformer.GetStore().List() {
		instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
		if !ok {
			continue
		}

		if state := instance.Status.MigrationState; state != nil && isInProgress(state) {
			busy[state.SourceNode] = true
		}

		node := instance.Status.EvacuationNodeName
		if migration := e.migration(migrationName(instance.UID, node)); migration != nil && migration.IsRunning() {
			busy[node] = true
		}
	}

	return busy
}

func isInProgress(state *kubevirtv1.VirtualMachineInstanceMigrationState) bool {
	return state.StartTimestamp != nil && state.EndTimestamp == nil
}

const (
	// copyTimePerGiB is KubeVirt's default of migrations.completionTimeoutPerGiB
	// (pkg/virt-config/virt-config.go, MigrationCompletionTimeoutPerGiB).
	copyTimePerGiB = 150 * time.Second
	gib            = 1 << 30
	mostGiB        = 1 << 20 // keeps the product in the range of a Duration
)

// copyLimit returns the shortest time after which virt-launcher ends a migration that copies the memory
// of an instance. virt-launcher also counts ephemeral disks, and doubles the time for a pause (KubeVirt,
// pkg/virt-launcher/virtwrap, getVMIMigrationDataSize and live-migration-source.go).
func copyLimit(instance *kubevirtv1.VirtualMachineInstance) time.Duration {
	memory := instance.Spec.Domain.Memory
	if memory == nil || memory.Guest == nil {
		return 0
	}

	return copyTimePerGiB * time.Duration(min(max(memory.Guest.Value(), 0)/gib+1, mostGiB))
}

// lastAdvance returns when a migration last entered a phase after KubeVirt's queue. It returns zero
// for a queued migration and for nil.
func lastAdvance(migration *kubevirtv1.VirtualMachineInstanceMigration) time.Time {
	return lastTransition(migration, func(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) bool {
		return phase != kubevirtv1.MigrationPhaseUnset && phase != kubevirtv1.MigrationPending
	})
}

// handOffTime returns when virt-controller handed a migration over to the nodes, or zero if that is
// not recorded.
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
