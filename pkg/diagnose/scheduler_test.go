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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestCause_SchedulerMessages tests the messages of kube-scheduler 1.34 and older for pods that fit
// nowhere, verbatim (k8s.io/kubernetes/pkg/scheduler/framework/plugins). Each has one cause.
func TestCause_SchedulerMessages(t *testing.T) {
	t.Parallel()

	const (
		unhelpful = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
		claims    = " no new claims to deallocate,"
	)

	tests := map[string]struct {
		reason string
		says   string
		want   string
		kind   error
	}{
		"Cpu":         {"room", "0/3 nodes are available: 3 Insufficient cpu.", "Unschedulable", spi.ErrExhausted},
		"Several":     {"room, twice on a node", "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.", "Unschedulable", spi.ErrExhausted},
		"Hugepages":   {"room", "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient hugepages-2Mi.", "Unschedulable", spi.ErrExhausted},
		"Pods":        {"room", "0/3 nodes are available: 3 Too many pods.", "Unschedulable", spi.ErrExhausted},
		"Attachments": {"a node takes so many volumes", "0/3 nodes are available: 3 node(s) exceed max volume count.", "Unschedulable", spi.ErrExhausted},
		"Closed":      {"room, once they are open", "0/3 nodes are available: 3 node(s) were unschedulable.", "Unschedulable", spi.ErrExhausted},
		"Tainted":     {"1.34", "0/3 nodes are available: 3 node(s) had untolerated taint(s).", "Unschedulable", spi.ErrExhausted},
		"OlderTaint":  {"a taint's name is no word of the scheduler's", "0/1 nodes are available: 1 node(s) had untolerated taint {storageclass.example.com/persistentvolumeclaim: }.", "Unschedulable", spi.ErrExhausted},
		"Nowhere":     {"no node has the labels", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "Unschedulable", spi.ErrExhausted},
		"NoNodes":     {"none at all", "no nodes available to schedule pods", "Unschedulable", spi.ErrExhausted},
		"Spread":      {"more nodes would do", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints.", "Unschedulable", spi.ErrExhausted},
		"NoVictims":   {"the tail repeats", "0/3 nodes are available: 3 Insufficient cpu." + claims + " preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.", "Unschedulable", spi.ErrExhausted},
		"TailOfZones": {"what the tail says of nodes without their pods is no cause", "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.", "Unschedulable", spi.ErrExhausted},
		"TailOfKVM":   {"the same", "0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm.", "Unschedulable", spi.ErrExhausted},

		"Device":          {"all nodes with the labels lack it", "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient nvidia.com/GA102GL_A10." + unhelpful, "InsufficientDevices", spi.ErrExhausted},
		"DeviceAndRoom":   {"all lack it, one lacks room as well", "0/3 nodes are available: 1 Insufficient cpu, 3 Insufficient nvidia.com/GA102GL_A10.", "InsufficientDevices", spi.ErrExhausted},
		"DeviceOrRoom":    {"the node with the device is full", "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/GA102GL_A10.", "Unschedulable", spi.ErrExhausted},
		"EitherDevice":    {"each is there, on the other node", "0/2 nodes are available: 1 Insufficient example.com/a, 1 Insufficient example.com/b.", "Unschedulable", spi.ErrExhausted},
		"KVM":             {"no node has it", "0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm, 3 Insufficient devices.kubevirt.io/tun." + unhelpful, "VirtualizationMissing", spi.ErrExhausted},
		"HyperV":          {"the hypervisor is hyperv-direct", "0/3 nodes are available: 3 Insufficient devices.kubevirt.io/mshv, 3 Insufficient devices.kubevirt.io/tun." + unhelpful, "VirtualizationMissing", spi.ErrExhausted},
		"KVMAndRoom":      {"with more room it would lack KVM still", "0/3 nodes are available: 2 Insufficient cpu, 3 Insufficient devices.kubevirt.io/kvm.", "VirtualizationMissing", spi.ErrExhausted},
		"KVMOrRoom":       {"the nodes with KVM are full", "0/3 nodes are available: 2 Insufficient cpu, 1 Insufficient devices.kubevirt.io/kvm.", "Unschedulable", spi.ErrExhausted},
		"SomebodysKVM":    {"a device that only looks like it", "0/3 nodes are available: 3 Insufficient devices.example.com/kvm.", "InsufficientDevices", spi.ErrExhausted},
		"DeviceElsewhere": {"the two nodes with the labels lack it", "0/5 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/X, 2 node(s) had untolerated taint(s).", "InsufficientDevices", spi.ErrExhausted},

		"Zone":          {"the volume is elsewhere", "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.", "VolumeZoneConflict", spi.ErrPrecondition},
		"OlderZone":     {"up to 1.33", "0/3 nodes are available: 3 node(s) had volume node affinity conflict.", "VolumeZoneConflict", spi.ErrPrecondition},
		"OldZone":       {"volumes with labels", "0/3 nodes are available: 3 node(s) had no available volume zone.", "VolumeZoneConflict", spi.ErrPrecondition},
		"ZoneAndRoom":   {"two nodes have room, and lack the volume", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had volume node affinity conflict." + claims + unhelpful, "VolumeZoneConflict", spi.ErrPrecondition},
		"ZoneAndClosed": {"the same", "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match PersistentVolume's node affinity.", "VolumeZoneConflict", spi.ErrPrecondition},
		"ZoneAndDevice": {"the same", "0/3 nodes are available: 1 Insufficient nvidia.com/X, 2 node(s) didn't match PersistentVolume's node affinity.", "VolumeZoneConflict", spi.ErrPrecondition},

		"Storage":        {"the nodes suit otherwise", "0/3 nodes are available: 3 node(s) did not have enough free storage.", "StorageExhausted", spi.ErrExhausted},
		"StorageAndRoom": {"with room, storage is missing still", "0/3 nodes are available: 1 Insufficient memory, 2 node(s) did not have enough free storage.", "StorageExhausted", spi.ErrExhausted},

		"Unbound":         {"it may pass", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims." + unhelpful, "VolumeNotBound", spi.ErrPrecondition},
		"OlderUnbound":    {"schedulers that judged claims on each node", "0/3 nodes are available: 1 Insufficient cpu, 2 pod has unbound immediate PersistentVolumeClaims.", "VolumeNotBound", spi.ErrPrecondition},
		"NothingToBind":   {"two nodes have room", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't find available persistent volumes to bind.", "VolumeNotBound", spi.ErrPrecondition},
		"Claim":           {"it does not exist", `0/3 nodes are available: persistentvolumeclaim "data" not found.` + claims + unhelpful, "ClaimNotFound", spi.ErrPrecondition},
		"Leaving":         {"it exists, though not for long", `0/3 nodes are available: persistentvolumeclaim "data" is being deleted.` + unhelpful, "DataVolumeFailed", spi.ErrPrecondition},
		"Lost":            {"its volume is gone", `0/3 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "pvc-1".` + unhelpful, "DataVolumeFailed", spi.ErrPrecondition},
		"LostOnEach":      {"the same, and there is room", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).", "DataVolumeFailed", spi.ErrPrecondition},
		"LostVolume":      {"the same", `0/3 nodes are available: persistentvolume "pvc-1" not found.`, "DataVolumeFailed", spi.ErrPrecondition},
		"Class":           {"it does not exist", `0/3 nodes are available: storageclass.storage.k8s.io "fast" not found.`, "StorageClassNotFound", spi.ErrPrecondition},
		"InUse":           {"another pod has the claim, and there is room", "0/3 nodes are available: 1 Too many pods, 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.", "ClaimInUse", spi.ErrPrecondition},
		"NotEvenPossible": {"numbers that cannot be", "0/3 nodes are available: 99999999999999999999 Insufficient nvidia.com/X, 3 Insufficient cpu.", "Unschedulable", spi.ErrExhausted},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cause := unschedulable(tc.says, ago(time.Hour)).Cause(now, grace)
			require.NotNil(t, cause, tc.reason)
			require.Equal(t, tc.want, cause.Err.Reason, tc.reason)
			require.ErrorIs(t, cause.Err, tc.kind)
			require.NotContains(t, cause.Err.Message, "reemption", "it is of no use to people")
			require.NotContains(t, cause.Err.Message, "deallocate")
		})
	}
}

// TestCause_StaleSchedulerMessage tests outdated messages that remain on the instance.
func TestCause_StaleSchedulerMessage(t *testing.T) {
	t.Parallel()

	seen := func() *diagnose.Evidence {
		return unschedulable("0/3 nodes are available: 3 Insufficient cpu.", ago(time.Hour))
	}

	e := seen()
	e.Instance.Status.ActivePods = nil
	require.Nil(t, e.Cause(now, grace), "there is no pod that lacks room")
	require.Nil(t, diagnose.Machine(e.VirtualMachine, e.Instance))

	e = seen()
	e.Pods = []corev1.Pod{*takenUp(corev1.PodPending)}
	require.Nil(t, e.Cause(now, grace), "the pod has its place, and KubeVirt has not seen it yet")
}

// copied returns a condition that KubeVirt copied from an instance.
func copied(since metav1.Time) kubevirtv1.VirtualMachineCondition {
	return kubevirtv1.VirtualMachineCondition{
		Type:               "PodScheduled",
		Status:             corev1.ConditionFalse,
		Reason:             "Unschedulable",
		Message:            "0/3 nodes are available",
		LastTransitionTime: since,
	}
}
