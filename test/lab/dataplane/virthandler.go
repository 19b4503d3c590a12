package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// noSELinux is virt-handler's report for a host without SELinux. Without such a report
// virt-controller creates no target pod for a migration.
const noSELinux = "none"

// defaultGracePeriod is KubeVirt's terminationGracePeriodSeconds.
const defaultGracePeriod = 30 * time.Second

// virtHandler simulates the virt-handlers of all provider nodes. It owns a VirtualMachineInstance
// from phase Scheduled on. Like the real one it may list, watch and update VirtualMachineInstances,
// which have no status subresource.
type virtHandler struct {
	provider   *providerCluster
	behaviour  behaviour
	hypervisor Hypervisor // boots the guests with GuestAnnotation; nil: none
	now        func() time.Time
	log        *slog.Logger
}

// reconcile advances one VirtualMachineInstance. An update of an outdated copy
// conflicts and is retried.
func (h *virtHandler) reconcile(ctx context.Context, key string) (time.Duration, error) {
	instance, err := h.provider.instance(key)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !isHandlers(instance) || !h.provider.nodeUp(instance.Status.NodeName) {
		return 0, nil
	}
	desired := instance.DeepCopy()
	after, err := h.advance(ctx, desired)
	if err != nil {
		return 0, err
	}
	if equality.Semantic.DeepEqual(instance, desired) {
		return after, nil
	}
	instances := h.provider.kubevirt.KubevirtV1().VirtualMachineInstances(instance.Namespace)
	if _, err := instances.Update(onNode(ctx, instance.Status.NodeName), desired, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("update VirtualMachineInstance %s: %w", key, err)
	}
	if instance.Status.Phase != desired.Status.Phase {
		h.log.Info("phase", "instance", key, "node", instance.Status.NodeName, "phase", desired.Status.Phase)
	}
	if instance.Status.NodeName != desired.Status.NodeName {
		h.log.Info("migrated", "instance", key, "from", instance.Status.NodeName, "to", desired.Status.NodeName)
	}
	return after, nil
}

// isHandlers reports whether virt-handler, rather than virt-controller, owns the instance.
func isHandlers(instance *kubevirtv1.VirtualMachineInstance) bool {
	return (instance.IsScheduled() || instance.IsRunning()) && instance.Status.NodeName != ""
}

// advance updates the instance's status, and returns when to reconcile again.
func (h *virtHandler) advance(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) (time.Duration, error) {
	pod := h.provider.launcherPod(instance)
	if isReal(instance) {
		real := &realGuests{provider: h.provider, hypervisor: h.hypervisor, now: h.now}
		return real.advance(ctx, instance, pod)
	}
	after := h.simulate(instance, pod)
	if hasFault(instance, FaultSyncFailed) && instance.IsScheduled() && instance.DeletionTimestamp == nil {
		return pollInterval, h.failSync(ctx, instance)
	}
	return after, nil
}

// failSync reports that virt-handler cannot start a guest.
func (h *virtHandler) failSync(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) error {
	const message = "failed to configure vmi network: LinkAdd: operation not supported"
	setInstanceCondition(instance, kubevirtv1.VirtualMachineInstanceCondition{
		Type:    kubevirtv1.VirtualMachineInstanceSynchronized,
		Status:  corev1.ConditionFalse,
		Reason:  "Synchronizing with the Domain failed.",
		Message: message,
	}, h.now())
	return recordWarning(ctx, h.provider.client, h.now(), &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kubevirtv1.GroupVersion.String(),
			Kind:       "VirtualMachineInstance",
			Namespace:  instance.Namespace,
			Name:       instance.Name,
			UID:        instance.UID,
		},
		Reason:  "SyncFailed",
		Message: message,
		Source:  corev1.EventSource{Component: "virt-handler", Host: instance.Status.NodeName},
	})
}

// simulate is advance for simulated guests.
func (h *virtHandler) simulate(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod) time.Duration {
	now := h.now()
	if since, asked := shutdownRequest(instance, pod); asked {
		return h.shutDown(instance, now, since)
	}
	if pod == nil {
		return 0
	}
	if instance.IsScheduled() {
		if left := h.boot(instance, now); left > 0 || !instance.IsRunning() {
			return left
		}
	}
	return sooner(h.observe(instance, pod, now), h.migrate(instance, now))
}

// sooner returns the shorter of two delays, where zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// shutdownRequest returns when the guest was asked to shut down, by the deletion of its
// VirtualMachineInstance or of its launcher pod (an eviction).
func shutdownRequest(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod) (time.Time, bool) {
	switch {
	case instance.DeletionTimestamp != nil:
		return instance.DeletionTimestamp.Time, true
	case pod != nil && pod.DeletionTimestamp != nil:
		var grace time.Duration
		if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		return pod.DeletionTimestamp.Add(-grace), true // a pod's deletion timestamp is the end of its grace period
	default:
		return time.Time{}, false
	}
}

// shutDown ends the guest after the shutdown latency, or kills it if its
// grace period expires first.
func (h *virtHandler) shutDown(instance *kubevirtv1.VirtualMachineInstance, now, since time.Time) time.Duration {
	latency := h.behaviour.latency(instance.Namespace, ShutdownLatencyAnnotation)
	grace := gracePeriod(instance)
	end := kubevirtv1.Succeeded
	if hasFault(instance, FaultStuckShutdown) || latency > grace {
		latency = grace
		end = kubevirtv1.Failed
	}
	if grace == 0 { // killed without a shutdown request: not a failure
		end = kubevirtv1.Succeeded
	}
	if left := remaining(now, since, latency); left > 0 {
		return left
	}
	setPhase(instance, end, now)
	return 0
}

// gracePeriod returns how long a guest may take to shut down.
func gracePeriod(instance *kubevirtv1.VirtualMachineInstance) time.Duration {
	if seconds := instance.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGracePeriod
}

// boot starts the guest after the boot latency.
func (h *virtHandler) boot(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	if hasFault(instance, FaultNoBoot) || hasFault(instance, FaultSyncFailed) {
		return 0
	}
	latency := h.behaviour.latency(instance.Namespace, BootLatencyAnnotation)
	if left := remaining(now, phaseSince(instance, kubevirtv1.Scheduled), latency); left > 0 {
		return left
	}
	if hasFault(instance, FaultCrash) {
		setPhase(instance, kubevirtv1.Failed, now)
		return 0
	}
	setPhase(instance, kubevirtv1.Running, now)
	return 0
}

// observe reports the interfaces of a running guest, whether it can migrate, and, after the
// join latency, its agent.
func (h *virtHandler) observe(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, now time.Time) time.Duration {
	latency := h.behaviour.latency(instance.Namespace, JoinLatencyAnnotation)
	left := remaining(now, phaseSince(instance, kubevirtv1.Running), latency)
	agent := left == 0 && !hasFault(instance, FaultNoAgent)
	instance.Status.Interfaces = interfaceStatuses(instance, pod.Status.PodIP, agent)
	instance.Status.MigrationMethod = migrationMethod(instance)
	attachVolumes(instance)
	instance.Status.SelinuxContext = noSELinux
	for _, condition := range migrationConditions(instance) {
		setInstanceCondition(instance, condition, now)
	}
	if agent {
		instance.Status.GuestOSInfo = guestOSInfo()
		setInstanceCondition(instance, kubevirtv1.VirtualMachineInstanceCondition{
			Type:   kubevirtv1.VirtualMachineInstanceAgentConnected,
			Status: corev1.ConditionTrue,
		}, now)
	}
	return left
}

// setPhase sets a phase and records its time.
func setPhase(instance *kubevirtv1.VirtualMachineInstance, phase kubevirtv1.VirtualMachineInstancePhase, now time.Time) {
	instance.Status.Phase = phase
	instance.Status.PhaseTransitionTimestamps = append(instance.Status.PhaseTransitionTimestamps,
		kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{
			Phase:                    phase,
			PhaseTransitionTimestamp: metav1.NewTime(now),
		})
}
