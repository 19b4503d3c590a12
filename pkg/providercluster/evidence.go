// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// evidenceTimeout bounds the time to read the evidence of one machine, for which a worker waits.
	// Failed reads are not retried: without them the diagnosis is merely less precise.
	evidenceTimeout = 5 * time.Second
	// maxEvidence bounds the objects of each list for one machine, and maxEvidenceMemory their memory, in
	// bytes: that of fifty disks, or of two hundred events.
	maxEvidence, maxEvidenceMemory = 500, 256 << 10
	// maxRelatedMemory and maxAllRelatedMemory bound the memory of the related evidence of one machine and
	// of all machines, in bytes. That of a machine with its pod, its disks and fifty events has 200 KiB.
	// Evidence that exceeds the limit is not used.
	maxRelatedMemory, maxAllRelatedMemory = 512 << 10, 16 << 20
)

// investigate reads the evidence that the VirtualMachine and its instance do not contain: the
// DataVolumes, their sources, pods and events. Since a machine may wait for hours, it reads them
// only for a slow machine, and caches them between reads. Objects that the driver may not read, as
// with the Role of an older release, are omitted.
func (m *Machines) investigate(ctx context.Context, c *providerapi.Clients, in *spi.ObserveMachineInput, seen *evidence) {
	slow := m.periods.Retry
	if initialized(seen.VirtualMachine, seen.Instance, m.options.NeedAddress) || m.options.Clock.Since(stepStart(seen)) < slow {
		return
	}

	if due := m.recall(seen, slow); due {
		m.keep(seen, (&reader{clients: c}).readRelated(ctx, in, seen))
		seen.fresh = true
	}
}

// evidence is what is known about a machine: its VirtualMachine and its instance, which are watched,
// and the related evidence.
type evidence struct {
	diagnose.Evidence

	// key identifies the record of the VirtualMachine.
	key machineKey
	// missing is the name of the source claim of a volume in the machine's namespace, if no DataVolume
	// of that name exists. It is related evidence, too.
	missing string
	// readAt is when the related evidence was read; zero if it was not.
	readAt time.Time
	// fresh is set if this call has read it.
	fresh bool
}

// setRelated replaces the related evidence.
func (e *evidence) setRelated(related evidence) {
	related.VirtualMachine = e.VirtualMachine
	related.Instance = e.Instance
	related.key = e.key
	*e = related
}

// setInstance sets the instance's latest state, and removes the evidence of an earlier step.
func (e *evidence) setInstance(instance *kubevirtv1.VirtualMachineInstance) {
	if e.Instance == nil || stepOf(e.Instance) != stepOf(instance) {
		e.setRelated(evidence{})
	}

	e.Instance = instance
}

// recall adds the related evidence that was read at this step. It returns true once in each interval:
// the related evidence has to be read again.
func (m *Machines) recall(seen *evidence, interval time.Duration) (due bool) {
	now := m.options.Clock.Now()

	m.use(seen.key, func(r *record) {
		if due = now.Sub(r.related.readAt) >= interval; due {
			r.related.readAt = now
		}

		if r.step == stepOf(seen.Instance) {
			seen.setRelated(r.related)
		}
	})

	return due
}

// keep adds the related evidence that was read at this step, and remembers it. If all of it takes too much
// memory, the evidence of each slow machine is read again.
func (m *Machines) keep(seen *evidence, related evidence) {
	memory := pages.MemoryOf(related)
	if memory > maxRelatedMemory {
		related = evidence{}
		memory = 0
	}

	m.use(seen.key, func(r *record) {
		related.readAt = r.related.readAt
		r.related = related
		r.memory = memory
		r.step = stepOf(seen.Instance)
	})

	seen.setRelated(related)

	if m.records.Weight() > maxAllRelatedMemory {
		m.records.Each((*record).dropRelated)
	}
}

// stepStart returns when the current step of the machine began.
func stepStart(seen *evidence) time.Time {
	if seen.Instance != nil {
		return seen.Instance.CreationTimestamp.Time
	}

	return seen.VirtualMachine.CreationTimestamp.Time
}

// step is the part of a machine's creation to be diagnosed: the UID of the launcher pod, or empty
// as long as the volumes are not ready. The evidence of one step is not valid for the next one.
type step string

// stepOf returns the step of a machine. A launcher pod without a node that the scheduler has not
// rejected waits for its volumes, also after an error of the scheduler itself, such as a conflict. A
// failed instance that is being replaced waits for the deletion of its pod.
func stepOf(instance *kubevirtv1.VirtualMachineInstance) step {
	if instance == nil || (instance.Status.Phase != kubevirtv1.Scheduling && instance.Status.Phase != kubevirtv1.Failed) {
		return ""
	}

	for uid, node := range instance.Status.ActivePods {
		if node != "" || isRejected(instance) {
			return step(uid)
		}
	}

	return ""
}

// isRejected reports whether the scheduler has rejected the launcher pod.
func isRejected(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulerError
	})
}

// hasSchedulerError reports whether the first attempt to schedule the launcher pod has ended with an
// error of the scheduler itself.
func hasSchedulerError(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Reason == corev1.PodReasonSchedulerError
	})
}
