// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// strategies are the run strategies with which the driver creates VirtualMachines.
var strategies = []kubevirtv1.VirtualMachineRunStrategy{
	"", kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce,
}

// ofSpec returns the sign of a VirtualMachine that was stopped through its run strategy, as by virtctl
// stop.
func ofSpec(vm *kubevirtv1.VirtualMachine) []sign {
	strategy := runStrategyOf(vm)
	if vm.DeletionTimestamp != nil || slices.Contains(strategies, strategy) {
		return nil
	}

	stopped := sign{
		from:    machineSpec,
		message: fmt.Sprintf("spec.runStrategy is %s", strategy),
		since:   vm.CreationTimestamp.Time,
		object:  named("VirtualMachine", vm),
		kind:    "spec.runStrategy",
		status:  string(strategy),
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
		if entry.Subresource != "" || entry.Time == nil || (last != nil && !last.Time.Before(entry.Time)) {
			continue
		}

		if slices.ContainsFunc(fields, func(field string) bool { return hasField(entry, field) }) {
			last = entry
		}
	}

	return last
}

func hasField(entry *metav1.ManagedFieldsEntry, field string) bool {
	return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.Raw, []byte(`"`+field+`"`))
}

// ofSpecChanges returns the signs of changes of the VirtualMachine's spec after its creation, as evidence:
// the driver never changes it. virt-controller completes it, for example with the firmware's UUID.
func ofSpecChanges(vm *kubevirtv1.VirtualMachine) []sign {
	var signs []sign

	for i := range vm.ManagedFields {
		entry := &vm.ManagedFields[i]
		if entry.Subresource != "" || entry.Time == nil || !entry.Time.After(vm.CreationTimestamp.Time) ||
			entry.Manager == "virt-controller" || !hasField(entry, "f:spec") {
			continue
		}

		signs = append(signs, sign{
			from:    machineChange,
			reason:  "SpecChanged",
			message: fmt.Sprintf("spec was changed by %q", entry.Manager),
			since:   entry.Time.Time,
			object:  named("VirtualMachine", vm),
			kind:    "managedFields",
			status:  string(entry.Operation),
		})
	}

	return signs
}
