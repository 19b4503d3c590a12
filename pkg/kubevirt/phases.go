package kubevirt

import (
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/phases"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// measure takes note of how far a machine has come, from what GetMachineStatus was asked and answered: machine-controller-manager asks
// every few seconds until the answer is a success, and then no more until it deletes the machine. That is up to five seconds after the
// machine was scheduled: of guests that do not run by then, that phase is not known.
func (p *MachinePlugin) measure(machine *v1alpha1.Machine, seen *spi.Machine, err error) {
	if machine == nil || machine.UID == "" {
		return
	}

	switch {
	case machine.DeletionTimestamp != nil:
		p.phases.Forget(machine.UID)
	case errors.Is(err, spi.ErrNotFound):
		p.phases.Waits(machine.UID, phases.Accepted, machine.CreationTimestamp.Time)
	case errors.Is(err, spi.ErrUninitialized) && seen != nil:
		next := nextPhase(seen.Reached)
		p.phases.Waits(machine.UID, next.phase, next.since)
	case err == nil && seen != nil:
		p.through(machine, seen.Reached)
	}
}

// through counts a machine whose creation ends now. One that is in a later phase was counted before, maybe by the process before.
func (p *MachinePlugin) through(machine *v1alpha1.Machine, reached spi.Reached) {
	switch machine.Status.CurrentStatus.Phase {
	case "", v1alpha1.MachineCrashLoopBackOff:
		p.phases.Done(machine.UID, tookUntil(machine, reached))
	default:
		p.phases.Forget(machine.UID)
	}
}

// tookUntil returns how long each phase took of which both ends are known.
func tookUntil(machine *v1alpha1.Machine, reached spi.Reached) map[phases.Phase]time.Duration {
	took, since := map[phases.Phase]time.Duration{}, machine.CreationTimestamp.Time

	for _, step := range []struct {
		phase phases.Phase
		until time.Time
	}{
		{phases.Accepted, reached.Created},
		{phases.Image, reached.Disks},
		{phases.Scheduled, reached.Scheduled},
		{phases.Running, reached.Running},
	} {
		if !since.IsZero() && !step.until.IsZero() {
			took[step.phase] = step.until.Sub(since)
		}

		since = step.until
	}

	return took
}

// waiting is a phase that a machine is in, and since when.
type waiting struct {
	phase phases.Phase
	since time.Time
}

// nextPhase returns the phase of a machine that is not scheduled yet.
func nextPhase(reached spi.Reached) waiting {
	if reached.Disks.IsZero() {
		return waiting{phases.Image, reached.Created}
	}

	return waiting{phases.Scheduled, reached.Disks}
}
