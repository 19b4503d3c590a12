// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// IsMigrationTarget reports whether KubeVirt created a pod as the target of a live migration.
func IsMigrationTarget(pod *corev1.Pod) bool {
	return pod.Labels[kubevirtv1.MigrationJobLabel] != ""
}

// ofMigrationTargets returns the scheduler's rejections of the pods to which a running machine is to
// move. KubeVirt deletes such a pod after five minutes, fails the migration, and creates another one
// for as long as the machine is marked for evacuation (pkg/virt-controller/watch/migration,
// handlePendingPodTimeout).
func ofMigrationTargets(instance *kubevirtv1.VirtualMachineInstance, pods []corev1.Pod) []sign {
	var signs []sign

	for i := range pods {
		pod := &pods[i]

		c := podCondition(pod, corev1.PodScheduled)
		if !IsMigrationTarget(pod) || pod.DeletionTimestamp != nil || c == nil || c.Status != corev1.ConditionFalse {
			continue
		}

		signs = append(signs, sign{
			from:    migrationTarget,
			reason:  c.Reason,
			message: withoutPreemption(c.Message),
			since:   c.LastTransitionTime.Time,
			subject: fmt.Sprintf("live migration %s away from provider node %s", pod.Annotations[kubevirtv1.MigrationJobNameAnnotation], instance.Status.NodeName),
			object:  named("Pod", pod),
			kind:    string(c.Type),
			status:  string(c.Status),
		})
	}

	return signs
}

// ofMigrations returns the obstacles to the evacuation of a machine: a ResourceQuota that rejects the
// target pod, and the failure of the last migration that has ended. Without a mark for evacuation,
// KubeVirt does not repeat a failed migration.
func ofMigrations(instance *kubevirtv1.VirtualMachineInstance, migrations []kubevirtv1.VirtualMachineInstanceMigration) []sign {
	if instance.Status.EvacuationNodeName == "" {
		return nil
	}

	var (
		signs []sign
		last  *kubevirtv1.VirtualMachineInstanceMigration
	)

	for i := range migrations {
		m := &migrations[i]

		if !m.IsFinal() {
			signs = append(signs, quotaOf(m)...)
		} else if last == nil || last.CreationTimestamp.Before(&m.CreationTimestamp) {
			last = m
		}
	}

	if last == nil || last.Status.Phase != kubevirtv1.MigrationFailed {
		return signs
	}

	return append(signs, failedMigration(instance, last))
}

func quotaOf(m *kubevirtv1.VirtualMachineInstanceMigration) []sign {
	var signs []sign

	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		if c.Type == kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota && c.Status == corev1.ConditionTrue {
			signs = append(signs, sign{
				from:    migration,
				reason:  reasonMigrationQuota,
				message: "a ResourceQuota rejects the target pod",
				subject: "live migration " + m.Name,
				since:   c.LastTransitionTime.Time,
				object:  named(kindMigration, m),
				kind:    string(c.Type),
				status:  string(c.Status),
			})
		}
	}

	return signs
}

func failedMigration(instance *kubevirtv1.VirtualMachineInstance, m *kubevirtv1.VirtualMachineInstanceMigration) sign {
	failed := sign{
		from:    migration,
		reason:  string(kubevirtv1.MigrationFailed),
		message: "has failed",
		since:   m.CreationTimestamp.Time,
		subject: fmt.Sprintf("live migration %s away from provider node %s", m.Name, instance.Status.EvacuationNodeName),
		object:  named(kindMigration, m),
		kind:    statusPhase,
		status:  string(m.Status.Phase),
	}

	if state := m.Status.MigrationState; state != nil && state.FailureReason != "" {
		failed.message = state.FailureReason
	}

	for i := range m.Status.PhaseTransitionTimestamps {
		if t := &m.Status.PhaseTransitionTimestamps[i]; t.Phase == kubevirtv1.MigrationFailed {
			failed.since = t.PhaseTransitionTimestamp.Time
		}
	}

	return failed
}

const (
	kindMigration = "VirtualMachineInstanceMigration"
	// reasonMigrationQuota is the reason of signs that a ResourceQuota rejects a migration.
	reasonMigrationQuota = "RejectedByResourceQuota"
)
