// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package handler simulates virt-handler and the launchers of VirtualMachineInstances: boot, shutdown, live migration, hot-plugged
// disks, and the guests on a hypervisor.
//
// Package dataplane runs it for the provider cluster. It must not depend on the target cluster.
package handler

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// noSELinux is virt-handler's report for a host without SELinux. Without such a report
// virt-controller creates no target pod for a migration.
const noSELinux = "none"

// defaultGracePeriod is KubeVirt's terminationGracePeriodSeconds.
const defaultGracePeriod = 30 * time.Second

// VirtHandler simulates the virt-handlers of all provider nodes. It owns a VirtualMachineInstance
// from phase Scheduled on. Like the real one it may list, watch and update VirtualMachineInstances,
// which have no status subresource.
type VirtHandler struct {
	Provider  *cluster.Provider
	Behaviour behaviour.Reader
	Now       func() time.Time
	Log       *slog.Logger
}

// Reconcile advances one VirtualMachineInstance. An update of an outdated copy
// conflicts and is retried.
func (h *VirtHandler) Reconcile(ctx context.Context, key string) (time.Duration, error) {
	instance, err := h.Provider.Instance(key)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !isHandlers(instance) || !h.Provider.NodeUp(instance.Status.NodeName) {
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
	instances := h.Provider.Kubevirt.KubevirtV1().VirtualMachineInstances(instance.Namespace)
	if _, err := instances.Update(onNode(ctx, instance.Status.NodeName), desired, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("update VirtualMachineInstance %s: %w", key, err)
	}
	if instance.Status.Phase != desired.Status.Phase {
		h.Log.Info("phase", "instance", key, "node", instance.Status.NodeName, "phase", desired.Status.Phase)
	}
	if instance.Status.NodeName != desired.Status.NodeName {
		h.Log.Info("migrated", "instance", key, "from", instance.Status.NodeName, "to", desired.Status.NodeName)
	}
	return after, nil
}

// isHandlers reports whether virt-handler, rather than virt-controller, owns the instance.
func isHandlers(instance *kubevirtv1.VirtualMachineInstance) bool {
	return (instance.IsScheduled() || instance.IsRunning()) && instance.Status.NodeName != ""
}

// advance updates the instance's status, and returns when to reconcile again.
func (h *VirtHandler) advance(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) (time.Duration, error) {
	pod := h.Provider.LauncherPod(instance)
	after := h.simulate(instance, pod)
	switch {
	case behaviour.HasFault(instance, behaviour.FaultSyncFailed) && instance.IsScheduled() && instance.DeletionTimestamp == nil:
		return behaviour.PollInterval, h.failSync(ctx, instance)
	case instance.Status.Phase == kubevirtv1.Failed:
		return after, h.warn(ctx, instance, "Stopped", "The VirtualMachineInstance crashed.")
	default:
		return after, nil
	}
}

// failSync reports that virt-handler cannot start a guest.
func (h *VirtHandler) failSync(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) error {
	const message = "failed to configure vmi network: LinkAdd: operation not supported"
	setInstanceCondition(instance, kubevirtv1.VirtualMachineInstanceCondition{
		Type:    kubevirtv1.VirtualMachineInstanceSynchronized,
		Status:  corev1.ConditionFalse,
		Reason:  "Synchronizing with the Domain failed.",
		Message: message,
	}, h.Now())
	return h.warn(ctx, instance, "SyncFailed", message)
}

// warn records a warning about an instance.
func (h *VirtHandler) warn(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, reason, message string) error {
	return cluster.RecordWarning(ctx, h.Provider.Client, h.Now(), &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kubevirtv1.GroupVersion.String(),
			Kind:       "VirtualMachineInstance",
			Namespace:  instance.Namespace,
			Name:       instance.Name,
			UID:        instance.UID,
		},
		Reason:  reason,
		Message: message,
		Source:  corev1.EventSource{Component: "virt-handler", Host: instance.Status.NodeName},
	})
}

// simulate advances the guest, without its faults.
func (h *VirtHandler) simulate(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod) time.Duration {
	now := h.Now()
	if since, asked := shutdownRequest(instance, pod); asked {
		return h.shutDown(instance, now, since)
	}
	if pod == nil {
		return 0
	}
	if left, doomed := h.fail(instance, pod, now); doomed {
		return left
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
func (h *VirtHandler) shutDown(instance *kubevirtv1.VirtualMachineInstance, now, since time.Time) time.Duration {
	latency := h.Behaviour.Latency(instance.Namespace, behaviour.ShutdownLatencyAnnotation)
	grace := gracePeriod(instance)
	end := kubevirtv1.Succeeded
	if behaviour.HasFault(instance, behaviour.FaultStuckShutdown) || latency > grace {
		latency = grace
		end = kubevirtv1.Failed
	}
	if grace == 0 { // killed without a shutdown request: not a failure
		end = kubevirtv1.Succeeded
	}
	if left := behaviour.Remaining(now, since, latency); left > 0 {
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
func (h *VirtHandler) boot(instance *kubevirtv1.VirtualMachineInstance, now time.Time) time.Duration {
	if behaviour.HasFault(instance, behaviour.FaultNoBoot) || behaviour.HasFault(instance, behaviour.FaultSyncFailed) {
		return 0
	}
	latency := h.Behaviour.Latency(instance.Namespace, behaviour.BootLatencyAnnotation)
	if left := behaviour.Remaining(now, cluster.PhaseSince(instance, kubevirtv1.Scheduled), latency); left > 0 {
		return left
	}
	if behaviour.HasFault(instance, behaviour.FaultCrash) {
		setPhase(instance, kubevirtv1.Failed, now)
		return 0
	}
	setPhase(instance, kubevirtv1.Running, now)
	return 0
}

// observe reports the interfaces of a running guest, whether it can migrate, and, after the
// join latency, its agent.
func (h *VirtHandler) observe(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, now time.Time) time.Duration {
	latency := h.Behaviour.Latency(instance.Namespace, behaviour.JoinLatencyAnnotation)
	left := behaviour.Remaining(now, cluster.PhaseSince(instance, kubevirtv1.Running), latency)
	agent := left == 0 && !behaviour.HasFault(instance, behaviour.FaultNoAgent)
	ip, settled := podAddress(instance, pod, now)
	left = sooner(left, settled)
	instance.Status.Interfaces = interfaceStatuses(instance, ip, agent)
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

// podAddress returns the address to report, and when to report another one: for some seconds after a migration, it is that of the source's
// pod.
func podAddress(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, now time.Time) (ip string, again time.Duration) {
	state := instance.Status.MigrationState
	if state == nil || state.EndTimestamp == nil || state.Failed {
		return pod.Status.PodIP, 0
	}
	left := behaviour.Remaining(now, state.EndTimestamp.Time, behaviour.AddressLatency)
	if left == 0 {
		return pod.Status.PodIP, 0
	}
	for i := range instance.Status.Interfaces {
		if name := instance.Status.Interfaces[i].Name; name != "" && isPodNetwork(instance, name) {
			return instance.Status.Interfaces[i].IP, left
		}
	}
	return pod.Status.PodIP, 0
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
