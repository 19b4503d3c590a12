// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// measure records the progress of a machine from the result of GetMachineStatus.
// machine-controller-manager calls it every few seconds until it succeeds, up to five seconds after
// the machine was scheduled, and then not before the deletion. The last phase of guests that start
// later is therefore not known.
func (p *MachinePlugin) measure(machine *v1alpha1.Machine, observed *spi.Machine, err error) {
	if machine == nil || machine.UID == "" {
		return
	}

	switch {
	case machine.DeletionTimestamp != nil:
		p.phases.Forget(records.Key(machine.UID))
	case errors.Is(err, spi.ErrNotFound):
		p.phases.SetWaiting(records.Key(machine.UID), records.Accepted, machine.CreationTimestamp.Time)
	case errors.Is(err, spi.ErrUninitialized) && observed != nil:
		phase, since := nextPhase(observed.Reached)
		p.phases.SetWaiting(records.Key(machine.UID), phase, since)
	case err == nil && observed != nil:
		p.finishPhases(machine, observed.Reached)
	}
}

// finishPhases counts a machine whose creation has ended. A machine in a later phase of its status
// has been counted already, by this process or an earlier one.
func (p *MachinePlugin) finishPhases(machine *v1alpha1.Machine, reached spi.Reached) {
	switch machine.Status.CurrentStatus.Phase {
	case "", v1alpha1.MachineCrashLoopBackOff:
		p.phases.Done(records.Key(machine.UID), phaseDurations(machine, reached))
	default:
		p.phases.Forget(records.Key(machine.UID))
	}
}

// phaseDurations returns the durations of the phases whose beginning and end are known.
func phaseDurations(machine *v1alpha1.Machine, reached spi.Reached) map[records.Phase]time.Duration {
	took := map[records.Phase]time.Duration{}
	since := machine.CreationTimestamp.Time

	for _, step := range []struct {
		phase records.Phase
		until time.Time
	}{
		{records.Accepted, reached.Created},
		{records.Image, reached.Disks},
		{records.Scheduled, reached.Scheduled},
		{records.Running, reached.Running},
	} {
		if !since.IsZero() && !step.until.IsZero() {
			took[step.phase] = step.until.Sub(since)
		}

		since = step.until
	}

	return took
}

// nextPhase returns the phase of a machine that is not scheduled yet, and when it began.
func nextPhase(reached spi.Reached) (phase records.Phase, since time.Time) {
	if reached.Disks.IsZero() {
		return records.Image, reached.Created
	}

	return records.Scheduled, reached.Disks
}
