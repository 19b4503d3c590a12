// Package diagnose names the one cause that keeps a machine from being scheduled, from what is seen on the provider cluster.
// pkg/spi/providercluster calls it. It is pure: it must not see a context, clock, client, environment or log.
package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Cause says why a machine is not scheduled. It is an error, and wraps the sentinel that says what kind of failure it is.
type Cause struct {
	// Reason is a stable token, fit for matching. docs/troubleshooting.md has a row for each.
	Reason string
	// Message is what the component that refused said, and then what to do.
	Message string
	// Remedy is what to do.
	Remedy string
	// Sign is what the cause was drawn from.
	Sign spi.Sign
	// Since is when it began, by the clock of the provider cluster.
	Since time.Time
	// Ripe is when it has stood for long enough to be more than a blip: earlier it must not be reported.
	Ripe time.Time

	kind error
}

// Error returns the reason and the message.
func (c *Cause) Error() string { return fmt.Sprintf("%s: %s", c.Reason, c.Message) }

// Unwrap returns the sentinel.
func (c *Cause) Unwrap() error { return c.kind }

// RemedyText implements spi.Remedied.
func (c *Cause) RemedyText() string { return c.Remedy }

// Evidence is what is seen of a machine on the provider cluster. Only the VirtualMachine is required: what was not read, or may
// not be read, is left out.
type Evidence struct {
	VirtualMachine *kubevirtv1.VirtualMachine
	// Instance is nil while there is none.
	Instance *kubevirtv1.VirtualMachineInstance
	// DataVolumes are the machine's.
	DataVolumes []cdiv1beta1.DataVolume
	// Images are those DataVolumes that the machine's are cloned from.
	Images []cdiv1beta1.DataVolume
	// Pods are the instance's.
	Pods []corev1.Pod
	// Events are those of the machine's launcher pod, and of its DataVolumes and their claims.
	Events []corev1.Event
}

// Patience says how long a failure must have stood before it counts: what passes by itself within that time is slowness, or a
// blip.
type Patience struct {
	// Refusal is for what stands as long as nobody acts: no room, no quota, no right.
	Refusal time.Duration
	// Retry is for what the provider cluster itself tries again soon, and often with success.
	Retry time.Duration
	// Obstruction is for what usually goes away when something else ends.
	Obstruction time.Duration
}

// PatienceOf returns the patience of an operator who gives capacity problems this grace.
func PatienceOf(grace time.Duration) Patience {
	return Patience{Refusal: grace, Retry: 2 * grace, Obstruction: 10 * grace}
}

// Cause returns the one cause that keeps the machine from being scheduled, or nil if nothing is known to be wrong. Of several
// that are ripe, the first one of the table counts. If none is ripe, it is the one that will be so first.
func (e *Evidence) Cause(now time.Time, patience Patience) *Cause {
	var first *Cause

	signs, in := e.signs(now), PlaceOf(e.VirtualMachine)

	for i := range table {
		cause := table[i].find(signs, in, now, patience)

		switch {
		case cause == nil:
		case !cause.Ripe.After(now):
			return cause
		case first == nil || cause.Ripe.Before(first.Ripe):
			first = cause
		}
	}

	return first
}

// Machine returns what seems to be wrong with a machine, however young it is, from the two objects alone.
func Machine(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance) *Cause {
	e := Evidence{VirtualMachine: vm, Instance: instance}

	return e.Cause(time.Time{}, Patience{})
}
