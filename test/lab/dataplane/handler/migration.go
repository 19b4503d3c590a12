// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"crypto/sha256"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// The failure reasons of a migration's source.
const (
	migrationAborted = "Live migration aborted"
	migrationFailed  = "Live migration failed: simulated by " + behaviour.FaultAnnotation
	targetLost       = "Live migration failed: the target launcher is gone"
)

// migrate advances a live migration that virt-controller has handed over, by one step of the
// source's or target's virt-handler: the target publishes its ports, the source copies the guest,
// the target takes the instance over and cleans up. It returns when to reconcile again. See
// KubeVirt's pkg/virt-handler/migration-source.go and migration-target.go.
func (h *VirtHandler) migrate(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	state := instance.Status.MigrationState
	switch {
	case state == nil || state.TargetNode == "":
		return 0
	case cluster.IsMigrationOver(state):
		delete(instance.Labels, kubevirtv1.MigrationTargetNodeNameLabel)
		return 0
	case state.EndTimestamp != nil:
		state.Completed = true
		return 0
	case !h.Provider.NodeUp(state.TargetNode):
		return behaviour.PollInterval
	case !isReachable(h.Provider.TargetPod(instance)):
		return abandon(state, now)
	case len(state.TargetDirectMigrationNodePorts) == 0:
		return h.listen(instance)
	case state.StartTimestamp == nil:
		state.StartTimestamp = timestamp(now)
		state.Mode = kubevirtv1.MigrationPreCopy
		return 0
	default:
		return h.copyGuest(instance, now)
	}
}

// isReachable reports whether the target launcher of a migration still runs.
func isReachable(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && !kubelet.IsFinished(pod)
}

// abandon ends a migration whose target launcher is gone. Before the target has published its
// ports, this is virt-controller's task.
func abandon(state *kubevirtv1.VirtualMachineInstanceMigrationState, now time.Time) time.Duration {
	if len(state.TargetDirectMigrationNodePorts) > 0 {
		failMigration(state, targetLost, now)
	}
	return 0
}

// listen publishes the address and ports on which the target's virt-handler waits for the guest.
func (h *VirtHandler) listen(instance *kubevirtv1.VirtualMachineInstance) time.Duration {
	state := instance.Status.MigrationState
	if h.Provider.TargetPod(instance).Status.PodIP == "" {
		return behaviour.PollInterval
	}
	state.TargetNodeAddress = handlerAddress(state.TargetNode)
	state.TargetDirectMigrationNodePorts = listeningPorts(instance)
	return 0
}

// handlerAddress returns the IP of the virt-handler pod on a node, which has no pod here: an address outside of the launchers' network.
func handlerAddress(node string) string {
	sum := sha256.Sum256([]byte(node))
	return netip.AddrFrom4([4]byte{10, 246, sum[0], sum[1]}).String()
}

// listeningPorts returns virt-handler's ports, and those of the launcher to which it forwards: of libvirt's socket, of QEMU and, if
// disks are copied, of its block devices (KubeVirt's pkg/virt-handler/migration-proxy).
func listeningPorts(instance *kubevirtv1.VirtualMachineInstance) map[string]int {
	const socket, direct, block = 0, 49152, 49153
	ports := map[string]int{"35001": socket, "35002": direct}
	if instance.Status.MigrationMethod == kubevirtv1.BlockMigration {
		ports["35003"] = block
	}
	return ports
}

// copyGuest ends a migration after the migration latency, or as the instance's fault requires.
func (h *VirtHandler) copyGuest(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	state := instance.Status.MigrationState
	if state.AbortRequested {
		state.AbortStatus = kubevirtv1.MigrationAbortSucceeded
		failMigration(state, migrationAborted, now)
		return 0
	}
	if behaviour.HasFault(instance, behaviour.FaultMigrationHangs) {
		return 0
	}
	latency := h.Behaviour.Latency(instance.Namespace, behaviour.MigrationLatencyAnnotation)
	if left := behaviour.Remaining(now, state.StartTimestamp.Time, latency); left > 0 {
		return left
	}
	if behaviour.HasFault(instance, behaviour.FaultMigrationFails) {
		failMigration(state, migrationFailed, now)
		return 0
	}
	takeOver(instance, now)
	return 0
}

// failMigration ends a migration as failed; the guest stays on its node.
func failMigration(state *kubevirtv1.VirtualMachineInstanceMigrationState, reason string, now time.Time) {
	if state.StartTimestamp == nil {
		state.StartTimestamp = timestamp(now)
	}
	state.EndTimestamp = timestamp(now)
	state.Failed = true
	state.FailureReason = reason
}

// takeOver makes the target's virt-handler the owner of the instance, as its ackMigrationCompletion
// does. The evacuation is over; virt-controller sets the image's version again.
func takeOver(instance *kubevirtv1.VirtualMachineInstance, now time.Time) {
	state := instance.Status.MigrationState
	state.TargetNodeDomainDetected = true
	state.TargetNodeDomainReadyTimestamp = timestamp(now)
	state.EndTimestamp = timestamp(now)
	if instance.Labels == nil {
		instance.Labels = map[string]string{}
	}
	instance.Labels[kubevirtv1.NodeNameLabel] = state.TargetNode
	delete(instance.Labels, kubevirtv1.OutdatedLauncherImageLabel)
	delete(instance.Annotations, kubevirtv1.EvictionSourceAnnotation)
	instance.Status.NodeName = state.TargetNode
	instance.Status.EvacuationNodeName = ""
	instance.Status.LauncherContainerImageVersion = ""
	instance.Status.MigrationTransport = kubevirtv1.MigrationTransportUnix
}

// timestamp returns a time as an API timestamp.
func timestamp(now time.Time) *metav1.Time {
	at := metav1.NewTime(now)
	return &at
}
