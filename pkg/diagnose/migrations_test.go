// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// evacuated returns a machine that runs on node-a and is marked for its evacuation.
func evacuated(target *corev1.Pod, migrations ...kubevirtv1.VirtualMachineInstanceMigration) *diagnose.Evidence {
	e := &diagnose.Evidence{VirtualMachine: newVM("Running"), Instance: newInstance(kubevirtv1.Running), Migrations: migrations}
	e.Instance.Status.NodeName = "node-a"
	e.Instance.Status.EvacuationNodeName = "node-a"

	if target != nil {
		e.Pods = []corev1.Pod{*target}
	}

	return e
}

// target returns a migration's target pod that the scheduler rejected a minute ago.
func target(reason, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "launcher-2",
			Labels:      map[string]string{kubevirtv1.MigrationJobLabel: "uid"},
			Annotations: map[string]string{kubevirtv1.MigrationJobNameAnnotation: "m-1"},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: ago(time.Minute)},
			},
		},
	}
}

// migration returns a migration that was created ten minutes ago and has been in its phase for one.
func migration(name string, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) kubevirtv1.VirtualMachineInstanceMigration {
	return kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(10 * time.Minute)},
		Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{
			Phase:                     phase,
			PhaseTransitionTimestamps: []kubevirtv1.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{{Phase: phase, PhaseTransitionTimestamp: ago(time.Minute)}},
		},
	}
}

func rejectedByQuota(m kubevirtv1.VirtualMachineInstanceMigration) kubevirtv1.VirtualMachineInstanceMigration {
	m.Status.Conditions = []kubevirtv1.VirtualMachineInstanceMigrationCondition{
		{Type: kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Minute)},
	}

	return m
}

// TestCause_DrainOfLastNode checks the message and remedy for a machine whose zone has no other node.
func TestCause_DrainOfLastNode(t *testing.T) {
	t.Parallel()

	cause := evacuated(target("Unschedulable", "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."),
		migration("m-0", kubevirtv1.MigrationFailed)).Cause(now, grace)
	require.NotNil(t, cause)
	require.Equal(t, "MigrationUnschedulable", cause.Err.Reason, "a rejected target pod explains more than an earlier failure")
	require.Contains(t, cause.Err.Message, "live migration m-1 away from provider node node-a: 0/3 nodes are available: 1 node(s) were unschedulable")
	require.Contains(t, cause.Err.Remedy, "delete its VirtualMachineInstance")
	require.Equal(t, "launcher-2", cause.Sign.Object.Name)
}

// TestCause_NoMigrationObstacle has migrations that need no action.
func TestCause_NoMigrationObstacle(t *testing.T) {
	t.Parallel()

	stays := evacuated(nil, migration("m-1", kubevirtv1.MigrationFailed))
	stays.Instance.Status.EvacuationNodeName = ""

	replaced := target("Unschedulable", "0/3 nodes are available")
	replaced.DeletionTimestamp = new(ago(time.Second))

	older := migration("m-1", kubevirtv1.MigrationFailed)
	older.CreationTimestamp = ago(time.Hour)

	tests := map[string]struct {
		reason string
		seen   *diagnose.Evidence
	}{
		"Queued":    {"KubeVirt runs a few at a time", evacuated(nil, migration("m-1", kubevirtv1.MigrationPending))},
		"NotMarked": {"the machine may stay", stays},
		"Succeeded": {"the last one counts", evacuated(nil, older, migration("m-2", kubevirtv1.MigrationSucceeded))},
		"Gated":     {"another component decides when the pod may be scheduled", evacuated(target("SchedulingGated", ""))},
		"Replaced":  {"KubeVirt deletes the target pod of a failed migration", evacuated(replaced)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Nil(t, tc.seen.Cause(now, grace), tc.reason)
		})
	}
}
