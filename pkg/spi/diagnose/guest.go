package diagnose

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	kindInstance = "VirtualMachineInstance"
	// syncFailed is the reason of virt-handler's events, and notSynchronized that of its condition
	// (KubeVirt, pkg/virt-handler/vm.go).
	syncFailed      = "SyncFailed"
	notSynchronized = "Synchronizing with the Domain failed."
)

// strategies are the run strategies with which the driver creates VirtualMachines.
var strategies = []kubevirtv1.VirtualMachineRunStrategy{
	"", kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce,
}

// runStrategyOf returns the run strategy of a VirtualMachine; empty if it has none, or an invalid one.
func runStrategyOf(vm *kubevirtv1.VirtualMachine) kubevirtv1.VirtualMachineRunStrategy {
	strategy, err := vm.RunStrategy()
	if err != nil || (vm.Spec.RunStrategy == nil && vm.Spec.Running == nil) {
		return ""
	}

	return strategy
}

// ofSpec returns the sign of a VirtualMachine that was stopped through its run strategy, as by virtctl
// stop.
func ofSpec(vm *kubevirtv1.VirtualMachine) []sign {
	strategy := runStrategyOf(vm)
	if vm.DeletionTimestamp != nil || slices.Contains(strategies, strategy) {
		return nil
	}

	stopped := sign{
		from: machineSpec, message: fmt.Sprintf("spec.runStrategy is %s", strategy), since: vm.CreationTimestamp.Time,
		object: named("VirtualMachine", vm), kind: "spec.runStrategy", status: string(strategy),
		command: commandOf("virtctl start %s", vm.Name),
	}

	for i := range vm.Status.Conditions {
		stopped.since = latest(stopped.since, vm.Status.Conditions[i].LastTransitionTime.Time)
	}

	if change := lastChange(vm.ManagedFields, "f:runStrategy", "f:running"); change != nil {
		stopped.message += fmt.Sprintf(", set by %q", change.Manager)
		stopped.since = change.Time.Time
	}

	stopped.message += "; the driver does not set this value"

	return []sign{stopped}
}

// lastChange returns the last change of one of the fields of the spec, which are in the format of managed
// fields; nil if it is not recorded.
func lastChange(entries []metav1.ManagedFieldsEntry, fields ...string) *metav1.ManagedFieldsEntry {
	var last *metav1.ManagedFieldsEntry

	for i := range entries {
		entry := &entries[i]
		if entry.Subresource != "" || entry.Time == nil || entry.FieldsV1 == nil || (last != nil && !last.Time.Before(entry.Time)) {
			continue
		}

		if slices.ContainsFunc(fields, func(field string) bool { return bytes.Contains(entry.FieldsV1.Raw, []byte(`"`+field+`"`)) }) {
			last = entry
		}
	}

	return last
}

// GuestRuns reports whether an instance has a guest that runs.
func GuestRuns(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.Phase == kubevirtv1.Running && pause(instance) == nil
}

func pause(instance *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstanceCondition {
	for i := range instance.Status.Conditions {
		if c := &instance.Status.Conditions[i]; c.Type == kubevirtv1.VirtualMachineInstancePaused && c.Status == corev1.ConditionTrue {
			return c
		}
	}

	return nil
}

// ofGuest returns the sign of a guest that does not run although its machine has a provider node. Every
// guest is not started for some seconds.
func (e *Evidence) ofGuest(instance *kubevirtv1.VirtualMachineInstance) []sign {
	phase := instance.Status.Phase
	s := sign{
		object: named(kindInstance, instance), kind: statusPhase, status: string(phase),
		since: latest(instance.CreationTimestamp.Time, phaseTime(instance, phase)),
	}

	switch paused := pause(instance); {
	case phase == kubevirtv1.Scheduled:
		s.from = guestStart
		s.message = fmt.Sprintf("virt-handler on provider node %s has not started the guest", instance.Status.NodeName)
	case instance.IsFinal() && staysDown(e.VirtualMachine, phase):
		s.from = guestEnd
		s.message = fmt.Sprintf("the guest has ended, and its VirtualMachineInstance is %s; %s", phase, notRestarted(e.VirtualMachine))
	case paused != nil && !instance.IsFinal():
		s.from, s.reason, s.message, s.since = guestPause, paused.Reason, paused.Message, paused.LastTransitionTime.Time
		s.kind, s.status = string(paused.Type), string(paused.Status)
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
			words, when = cmp.Or(event.Message, event.Reason), last
		}
	}

	return words
}
