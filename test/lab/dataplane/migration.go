package dataplane

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// What a migration's target publishes, and why a source gives up.
const (
	listeningPort    = "35001" // of the target's virt-handler, which forwards to
	migrationPort    = 49152   // the first port of its QEMU
	migrationAborted = "Live migration aborted"
	migrationFailed  = "Live migration failed: simulated by " + FaultAnnotation
	targetLost       = "Live migration failed: the target launcher is gone"
)

// migrate moves a live migration on that virt-controller has handed over, by one step of either host's virt-handler: the
// target publishes where it listens, the source copies the guest, the target takes the instance over and cleans up. It
// returns when to look again. See KubeVirt's pkg/virt-handler/migration-source.go and migration-target.go.
func (h *virtHandler) migrate(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	state := instance.Status.MigrationState
	switch {
	case state == nil || state.TargetNode == "":
		return 0
	case isMigrationOver(state):
		delete(instance.Labels, kubevirtv1.MigrationTargetNodeNameLabel)
		return 0
	case state.EndTimestamp != nil:
		state.Completed = true
		return 0
	case !h.provider.nodeUp(state.TargetNode):
		return pollInterval
	case !isReachable(h.provider.targetPod(instance)):
		return abandon(state, now)
	case len(state.TargetDirectMigrationNodePorts) == 0:
		return h.listen(instance)
	case state.StartTimestamp == nil:
		state.StartTimestamp, state.Mode = timestamp(now), kubevirtv1.MigrationPreCopy
		return 0
	default:
		return h.copyGuest(instance, now)
	}
}

// isMigrationOver tells whether a migration has succeeded or failed, and virt-handler has said so.
func isMigrationOver(state *kubevirtv1.VirtualMachineInstanceMigrationState) bool {
	return state.EndTimestamp != nil && (state.Completed || state.Failed)
}

// isReachable tells whether the launcher that is to take a guest runs on.
func isReachable(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && !isFinished(pod)
}

// abandon ends a migration whose target launcher is gone. Before the target has published its ports, virt-controller does.
func abandon(state *kubevirtv1.VirtualMachineInstanceMigrationState, now time.Time) time.Duration {
	if len(state.TargetDirectMigrationNodePorts) > 0 {
		failMigration(state, targetLost, now)
	}
	return 0
}

// listen publishes where the target's virt-handler waits for the guest.
func (h *virtHandler) listen(instance *kubevirtv1.VirtualMachineInstance) time.Duration {
	state := instance.Status.MigrationState
	pod := h.provider.targetPod(instance)
	if pod.Status.PodIP == "" {
		return pollInterval
	}
	state.TargetNodeAddress = pod.Status.PodIP
	state.TargetDirectMigrationNodePorts = map[string]int{listeningPort: migrationPort}
	return 0
}

// copyGuest is the time between a migration's start and its end: the latency, or whatever the instance's fault makes of it.
func (h *virtHandler) copyGuest(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	state := instance.Status.MigrationState
	if state.AbortRequested {
		state.AbortStatus = kubevirtv1.MigrationAbortSucceeded
		failMigration(state, migrationAborted, now)
		return 0
	}
	if hasFault(instance, FaultMigrationHangs) {
		return 0
	}
	latency := h.behaviour.latency(instance.Namespace, MigrationLatencyAnnotation)
	if left := remaining(now, state.StartTimestamp.Time, latency); left > 0 {
		return left
	}
	if hasFault(instance, FaultMigrationFails) {
		failMigration(state, migrationFailed, now)
		return 0
	}
	takeOver(instance, now)
	return 0
}

// failMigration says that the guest stays where it is.
func failMigration(state *kubevirtv1.VirtualMachineInstanceMigrationState, reason string, now time.Time) {
	if state.StartTimestamp == nil {
		state.StartTimestamp = timestamp(now)
	}
	state.EndTimestamp, state.Failed, state.FailureReason = timestamp(now), true, reason
}

// takeOver makes the target's virt-handler the owner of the instance, as its ackMigrationCompletion does. The evacuation is
// over; virt-controller fills the image's version in anew.
func takeOver(instance *kubevirtv1.VirtualMachineInstance, now time.Time) {
	state := instance.Status.MigrationState
	state.TargetNodeDomainDetected = true
	state.TargetNodeDomainReadyTimestamp, state.EndTimestamp = timestamp(now), timestamp(now)
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

// isLeft tells whether a launcher has nothing to do any more: its guest has migrated away, or a failed migration did not bring
// one.
func isLeft(pod *corev1.Pod, instance *kubevirtv1.VirtualMachineInstance) bool {
	state := instance.Status.MigrationState
	switch {
	case state == nil || !isMigrationOver(state):
		return false
	case state.Failed:
		return pod.Name == state.TargetPod
	default:
		return pod.Name == state.SourcePod
	}
}

// cameLive tells whether an instance's last migration brought it from a node to where it is.
func cameLive(instance *kubevirtv1.VirtualMachineInstance, from string) bool {
	state := instance.Status.MigrationState
	return state != nil && isMigrationOver(state) && !state.Failed &&
		state.SourceNode == from && state.TargetNode == instance.Status.NodeName
}

// timestamp returns a time as the API holds it.
func timestamp(now time.Time) *metav1.Time {
	at := metav1.NewTime(now)
	return &at
}
