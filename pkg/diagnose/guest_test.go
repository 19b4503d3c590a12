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

// onNode returns a machine whose instance has been in a phase on provider node host for that long.
func onNode(phase kubevirtv1.VirtualMachineInstancePhase, since time.Duration, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *diagnose.Evidence {
	instance := newInstance(phase, conditions...)
	instance.CreationTimestamp = ago(since)
	instance.Status.NodeName = "host"
	instance.Status.PhaseTransitionTimestamps = []kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{{Phase: phase, PhaseTransitionTimestamp: ago(since)}}

	return &diagnose.Evidence{VirtualMachine: newVM("Starting"), Instance: instance}
}

func scheduled(since time.Duration, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *diagnose.Evidence {
	return onNode(kubevirtv1.Scheduled, since, conditions...)
}

// syncFailed adds an event of virt-handler.
func syncFailed(e *diagnose.Evidence) {
	e.Events = append(e.Events, warning("VirtualMachineInstance", "SyncFailed", "failed to configure vmi network: LinkAdd: operation not supported", ago(2*time.Minute), ago(time.Second)))
}

// paused returns a machine whose guest was paused that long ago.
func paused(reason string, since time.Duration) *diagnose.Evidence {
	pause := condition("Paused", reason, "VMI was paused", ago(since))
	pause.Status = corev1.ConditionTrue

	return onNode(kubevirtv1.Running, time.Hour, pause)
}

// ended returns a machine whose guest ended two minutes ago.
func ended(strategy kubevirtv1.VirtualMachineRunStrategy, phase kubevirtv1.VirtualMachineInstancePhase) *diagnose.Evidence {
	e := onNode(phase, 2*time.Minute)
	e.VirtualMachine.Spec.RunStrategy = &strategy

	return e
}

// halted returns a VirtualMachine that virt-api stopped a minute ago.
func halted(vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachine {
	vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyHalted)
	vm.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "machine-controller", Time: &metav1.Time{Time: born}, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:template":{}}}`)}},
		{Manager: "virt-api", Time: new(ago(time.Minute)), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:runStrategy":{}}}`)}},
		{Manager: "virt-controller", Time: new(ago(0)), Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:runStrategy":{}}}`)}},
	}

	return vm
}

// TestCause_GuestDoesNotRun tests what the causes of guests that do not run tell.
func TestCause_GuestDoesNotRun(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		seen *diagnose.Evidence
		want []string
	}{
		"NotStarted": {scheduled(6 * time.Minute), []string{"virt-handler on provider node host has not started the guest", "log of virt-handler"}},
		"SyncFailed": {with(scheduled(2*time.Minute), syncFailed), []string{"LinkAdd: operation not supported", "log of virt-handler"}},
		"IOError":    {paused("PausedIOError", time.Minute), []string{"VMI was paused", "repair the storage"}},
		"ByUser":     {paused("PausedByUser", 2*time.Minute), []string{"VMI was paused", "virtctl unpause vm m"}},
		"Ended": {with(ended(kubevirtv1.RunStrategyOnce, kubevirtv1.Failed), syncFailed), []string{
			"runStrategy Once", "Failed", "LinkAdd: operation not supported", "delete the Machine",
		}},
		"EndedWell": {ended(kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.Succeeded), []string{"runStrategy RerunOnFailure", "Succeeded", "delete the Machine"}},
		"Halted":    {&diagnose.Evidence{VirtualMachine: halted(newVM("Stopped"))}, []string{"spec.runStrategy is Halted", `"virt-api"`, "virtctl start m"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cause := tc.seen.Cause(now, grace)
			require.NotNil(t, cause)

			for _, want := range tc.want {
				require.Contains(t, cause.Err.Error(), want)
			}

			require.NotContains(t, cause.Err.Remedy, "console", "there is no guest")
		})
	}
}

// TestCause_GuestEndedAtOnce tests that the end of a guest that KubeVirt does not start again has no grace period.
func TestCause_GuestEndedAtOnce(t *testing.T) {
	t.Parallel()

	e := ended(kubevirtv1.RunStrategyOnce, kubevirtv1.Failed)
	require.False(t, e.Cause(now, diagnose.GracePeriodsOf(time.Hour)).ReportableAt.After(now))
}

func TestGuestFailed(t *testing.T) {
	t.Parallel()

	failing := onNode(kubevirtv1.Scheduled, time.Second)
	failing.Instance.Status.Conditions = append(failing.Instance.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceSynchronized,
		Status: corev1.ConditionFalse,
	})

	tests := map[string]struct {
		reason string
		seen   *diagnose.Evidence
		want   bool
	}{
		"Once":      {reason: "KubeVirt does not start it again", seen: ended(kubevirtv1.RunStrategyOnce, kubevirtv1.Failed), want: true},
		"Always":    {reason: "KubeVirt starts it again", seen: ended(kubevirtv1.RunStrategyAlways, kubevirtv1.Failed)},
		"Scheduled": {reason: "virt-handler starts it", seen: onNode(kubevirtv1.Scheduled, time.Second)},
		"Failing":   {reason: "virt-handler has failed to start it", seen: failing, want: true},
		"Running":   {reason: "it runs", seen: onNode(kubevirtv1.Running, time.Second)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, diagnose.GuestFailed(tc.seen.VirtualMachine, tc.seen.Instance), tc.reason)
		})
	}
}

// TestCause_GuestOfMigration tests a guest that KubeVirt has paused to complete its live migration: to resume
// it would work against the migration.
func TestCause_GuestOfMigration(t *testing.T) {
	t.Parallel()

	require.Nil(t, paused("PausedByMigrationMonitor", time.Hour).Cause(now, grace))
}

// TestCause_SyncFailed tests events of virt-handler about a guest that has been started nevertheless.
func TestCause_SyncFailed(t *testing.T) {
	t.Parallel()

	require.Nil(t, with(onNode(kubevirtv1.Running, time.Hour), syncFailed).Cause(now, grace), "the guest runs")

	e := with(paused("PausedIOError", time.Hour), syncFailed)
	require.Equal(t, "GuestPaused", e.Cause(now, grace).Err.Reason)
	require.Len(t, e.Signs(now), 2, "the event is still evidence")
}

// TestCause_LastWarning tests that the newest of several warnings is quoted.
func TestCause_PausedWithoutWarning(t *testing.T) {
	t.Parallel()

	cause := with(paused("PausedByUser", 2*time.Minute), syncFailed).Cause(now, grace)
	require.NotContains(t, cause.Err.Message, "the last event", "it is older than the pause, and no reason for it")
}

func TestCause_LastWarning(t *testing.T) {
	t.Parallel()

	e := scheduled(6 * time.Minute)
	for message, last := range map[string]time.Duration{"Oldest": time.Hour, "Newest": time.Minute, "Old": 30 * time.Minute} {
		e.Events = append(e.Events, warning("VirtualMachineInstance", "Failed", message, ago(2*time.Hour), ago(last)))
	}

	require.Contains(t, e.Cause(now, grace).Err.Message, "the last event: Newest")
}

// TestCause_Since tests that a failure counts from the time of the phase, not of the object.
func TestCause_Since(t *testing.T) {
	t.Parallel()

	e := &diagnose.Evidence{VirtualMachine: newVM("Running"), Instance: withReason(newInstance(kubevirtv1.Failed), "NodeUnresponsive")}
	e.Instance.Status.PhaseTransitionTimestamps = []kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{
		{Phase: kubevirtv1.Failed, PhaseTransitionTimestamp: ago(time.Minute)},
		{Phase: kubevirtv1.Running, PhaseTransitionTimestamp: ago(time.Second)},
	}
	require.Equal(t, ago(time.Minute).Time, e.Cause(now, grace).Since)

	e = evacuated(nil, migration("m-1", kubevirtv1.MigrationFailed))
	e.Migrations[0].Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{FailureReason: "the target ended"}
	require.Equal(t, ago(time.Minute).Time, e.Cause(now, grace).Since)
	require.Contains(t, e.Cause(now, grace).Err.Message, "the target ended")
}

// TestCause_HostileName tests that a command contains only names: an operator executes it.
func TestCause_HostileName(t *testing.T) {
	t.Parallel()

	vm := halted(newVM("Stopped"))
	vm.Name = "m; reboot"
	require.Equal(t, "run virtctl start NAME to start it again; to remove it, delete the Machine",
		(&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace).Err.Remedy)
}

// TestCause_MachineStopped tests VirtualMachines with a run strategy of the driver, and others.
func TestCause_MachineStopped(t *testing.T) {
	t.Parallel()

	vm := halted(newVM("Stopped"))
	require.Equal(t, now.Add(-time.Minute), (&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace).Since, "since the change")

	vm.ManagedFields = nil
	require.Equal(t, "MachineStopped", (&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace).Err.Reason, "managed fields may be missing")

	vm.DeletionTimestamp = new(ago(time.Hour))
	require.Nil(t, (&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace), "it has to stop")

	for _, strategy := range []kubevirtv1.VirtualMachineRunStrategy{kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce} {
		vm := newVM("Stopped")
		vm.Spec.RunStrategy = &strategy
		require.Nil(t, (&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace), strategy)
	}

	vm = newVM("Stopped")
	vm.Spec.Running = new(false)
	require.Equal(t, "MachineStopped", (&diagnose.Evidence{VirtualMachine: vm}).Cause(now, grace).Err.Reason, "the older field")
}

// TestSigns_SpecChanged shows changes of a VirtualMachine after its creation, which are no cause.
func TestSigns_SpecChanged(t *testing.T) {
	t.Parallel()

	fields := &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:template":{"f:spec":{"f:affinity":{}}}}}`)}
	vm := newVM("Running")
	vm.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "machine-controller", Time: &metav1.Time{Time: born}, FieldsV1: fields},
		{Manager: "virt-controller", Time: new(ago(time.Minute)), FieldsV1: fields},
		{Manager: "virt-controller", Time: new(ago(time.Minute)), Subresource: "status", FieldsV1: fields},
		{Manager: "kubectl-label", Time: new(ago(time.Minute)), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{}}`)}},
		{Manager: "kubectl-edit", Time: new(ago(time.Minute)), Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fields},
	}

	e := &diagnose.Evidence{VirtualMachine: vm}
	require.Nil(t, e.Cause(now, grace))

	signs := e.Signs(now)
	require.Len(t, signs, 1)
	require.Equal(t, `spec was changed by "kubectl-edit"`, signs[0].Message)
}

func withReason(instance *kubevirtv1.VirtualMachineInstance, reason string) *kubevirtv1.VirtualMachineInstance {
	instance.Status.Reason = reason

	return instance
}

func crashing(times int) *kubevirtv1.VirtualMachine {
	vm := newVM("CrashLoopBackOff")
	vm.Status.StartFailure = &kubevirtv1.VirtualMachineStartFailure{ConsecutiveFailCount: times}

	return vm
}
