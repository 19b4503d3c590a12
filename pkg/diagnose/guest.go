// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	kindInstance = "VirtualMachineInstance"
	// syncFailed is the reason of virt-handler's events, and notSynchronized that of its condition
	// (KubeVirt, pkg/virt-handler/vm.go).
	syncFailed      = "SyncFailed"
	notSynchronized = "Synchronizing with the Domain failed."
)

// runStrategyOf returns the run strategy of a VirtualMachine; empty if it has none, or an invalid one.
func runStrategyOf(vm *kubevirtv1.VirtualMachine) kubevirtv1.VirtualMachineRunStrategy {
	strategy, err := vm.RunStrategy()
	if err != nil || (vm.Spec.RunStrategy == nil && vm.Spec.Running == nil) {
		return ""
	}

	return strategy
}

// GuestRuns reports whether an instance has a guest that runs.
func GuestRuns(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.Phase == kubevirtv1.Running && pause(instance) == nil
}

// GuestFailed reports whether the guest of an instance with a provider node has ended for good, or virt-handler has failed to start it.
func GuestFailed(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance) bool {
	phase := instance.Status.Phase
	if instance.IsFinal() {
		return staysDown(vm, phase)
	}

	return phase == kubevirtv1.Scheduled && slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
}

func pause(instance *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstanceCondition {
	for i := range instance.Status.Conditions {
		if c := &instance.Status.Conditions[i]; c.Type == kubevirtv1.VirtualMachineInstancePaused && c.Status == corev1.ConditionTrue {
			return c
		}
	}

	return nil
}

// ofGuest returns the sign of a guest that does not run although its machine has a provider node.
func (e *Evidence) ofGuest(instance *kubevirtv1.VirtualMachineInstance) []sign {
	phase := instance.Status.Phase
	s := sign{
		object: named(kindInstance, instance),
		kind:   statusPhase,
		status: string(phase),
		since:  latest(instance.CreationTimestamp.Time, phaseTime(instance, phase)),
	}

	switch paused := pause(instance); {
	case phase == kubevirtv1.Scheduled:
		s.from = guestStart
		s.silence = true
		s.message = fmt.Sprintf("virt-handler on provider node %s has not started the guest", instance.Status.NodeName)
	case instance.IsFinal() && staysDown(e.VirtualMachine, phase):
		s.from = guestEnd
		s.message = fmt.Sprintf("the guest has ended, and its VirtualMachineInstance is %s; %s", phase, notRestarted(e.VirtualMachine))
	case paused != nil && !instance.IsFinal():
		s.from = guestPause
		s.reason = paused.Reason
		s.message = paused.Message
		s.since = paused.LastTransitionTime.Time
		s.kind = string(paused.Type)
		s.status = string(paused.Status)
		s.command = commandOf("virtctl unpause vm %s", instance.Name)
	default:
		return nil
	}

	if words := e.lastWarning(); words != "" && s.from != guestPause {
		s.message += "; the last event: " + words
	}

	return []sign{s}
}

// staysDown reports whether KubeVirt starts no other instance after one that has ended in this phase
// (pkg/virt-controller/watch/vm/vm.go).
func staysDown(vm *kubevirtv1.VirtualMachine, phase kubevirtv1.VirtualMachineInstancePhase) bool {
	switch runStrategyOf(vm) {
	case kubevirtv1.RunStrategyOnce:
		return true
	case kubevirtv1.RunStrategyRerunOnFailure:
		return phase == kubevirtv1.Succeeded
	default:
		return false
	}
}

func notRestarted(vm *kubevirtv1.VirtualMachine) string {
	return fmt.Sprintf("with runStrategy %s, KubeVirt does not start it again", runStrategyOf(vm))
}

// lastWarning returns the reason and the message of the last warning about the instance, whatever its age;
// empty if there is none.
func (e *Evidence) lastWarning() string {
	var (
		words string
		when  time.Time
	)

	for i := range e.Events {
		event := &e.Events[i]
		if event.InvolvedObject.Kind != kindInstance || event.Type != corev1.EventTypeWarning {
			continue
		}

		if _, last := times(event); words == "" || last.After(when) {
			words = cmp.Or(event.Message, event.Reason)
			when = last
		}
	}

	return words
}
