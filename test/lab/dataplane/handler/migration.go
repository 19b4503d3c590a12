// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// The ports that a migration's target publishes, and the failure reasons of a source.
const (
	listeningPort    = "35001" // of the target's virt-handler, which forwards to
	migrationPort    = 49152   // the first port of its QEMU
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
	pod := h.Provider.TargetPod(instance)
	if pod.Status.PodIP == "" {
		return behaviour.PollInterval
	}
	state.TargetNodeAddress = pod.Status.PodIP
	state.TargetDirectMigrationNodePorts = map[string]int{listeningPort: migrationPort}
	return 0
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
