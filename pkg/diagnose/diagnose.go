// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose determines the one cause that keeps a machine from being scheduled, from its
// state on the provider cluster. pkg/providercluster calls it. It is pure: it must not use a
// context, clock, client, environment or log.
package diagnose

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Evidence is the observed state of a machine on the provider cluster. Only the VirtualMachine is
// required: objects that were not read, or may not be read, are omitted.
type Evidence struct {
	VirtualMachine *kubevirtv1.VirtualMachine
	// Instance is nil if there is none.
	Instance *kubevirtv1.VirtualMachineInstance
	// DataVolumes are the machine's DataVolumes.
	DataVolumes []cdiv1beta1.DataVolume
	// Images are the DataVolumes that the machine's are cloned from.
	Images []cdiv1beta1.DataVolume
	// Pods are the instance's pods.
	Pods []corev1.Pod
	// Claims are the claims of the DataVolumes, and those that CDI fills for them.
	Claims []corev1.PersistentVolumeClaim
	// Events are the events of the machine's launcher pod or of its instance, and of its DataVolumes,
	// their claims and CDI's pods.
	Events []corev1.Event
	// Migrations are the instance's live migrations.
	Migrations []kubevirtv1.VirtualMachineInstanceMigration
	// Console is the console of a guest that has not joined. It is read only for operators.
	Console *Console

	// WithStalls adds volumes without progress to the causes. They may be slow only, so the driver does
	// not report them as failures.
	WithStalls bool
}

// GracePeriods are how long failures must last before they are reported: a failure that ends within
// its grace period is a mere delay.
type GracePeriods struct {
	// Refusal is for failures that last until an operator acts: no
	// capacity, no quota, no permission.
	Refusal time.Duration
	// Retry is for operations that the provider cluster itself
	// retries soon, and often successfully.
	Retry time.Duration
	// Obstruction is for obstacles that usually disappear when another operation ends.
	Obstruction time.Duration
	// Start is for pods of CDI that do not start, without a reason: kubelet may be pulling a large image.
	Start time.Duration
}

// GracePeriodsOf returns the grace periods for an operator's grace period for capacity problems.
func GracePeriodsOf(capacity time.Duration) GracePeriods {
	return GracePeriods{Refusal: capacity, Retry: 2 * capacity, Obstruction: 10 * capacity, Start: 20 * capacity}
}

// Cause returns the one cause that keeps the machine from being scheduled, or nil if no problem is
// known. Of several causes that can be reported, it returns the first one of the table. If none can
// be reported yet, it returns the one that can be reported first.
func (e *Evidence) Cause(now time.Time, grace GracePeriods) *spi.Cause {
	var first *spi.Cause

	signs := e.signs(now)
	in := TopologyOf(e.VirtualMachine)

	for i := range table {
		cause := table[i].find(signs, in, now, grace)

		switch {
		case cause == nil:
		case !cause.ReportableAt.After(now):
			return cause
		case first == nil || cause.ReportableAt.Before(first.ReportableAt):
			first = cause
		}
	}

	return first
}

// Machine returns the apparent problem of a machine from the two objects alone, without regard to
// grace periods.
func Machine(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance) *spi.Cause {
	e := Evidence{VirtualMachine: vm, Instance: instance}

	return e.Cause(time.Time{}, GracePeriods{})
}
