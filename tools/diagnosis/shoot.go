// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// Shoot is the output of diagnose --shoot. Scripts depend on it: fields may be added, but
// never change.
type Shoot struct {
	Shoot  string `json:"shoot"`
	Result Result `json:"result"`
	// Namespace is the technical ID of the Shoot, and SeedName its seed, if the garden was read.
	Namespace string `json:"namespace,omitempty"`
	SeedName  string `json:"seed,omitempty"`
	// Links are the objects between the Shoot and its machines, in the order in which they are
	// reconciled.
	Links []Link `json:"links"`
	// Rotations are the rotations of the Shoot's credentials that have not been completed.
	Rotations []string `json:"rotations,omitempty"`
	// WaitingFor is the step that the Shoot waits for; set if no cause was found.
	WaitingFor string `json:"waitingFor,omitempty"`
	// Cause is the cause to repair first, and MoreCauses are the others.
	Cause      *ShootCause   `json:"cause,omitempty"`
	MoreCauses []*ShootCause `json:"moreCauses,omitempty"`
	// Machines are the diagnoses of all Machines.
	Machines []Machine `json:"machines"`
	// Volumes are the volumes of the Shoot's pods; nil if they were not read.
	Volumes *VolumesState `json:"volumes,omitempty"`
	// Unread lists what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
	// Next is the command that looks further; empty if there is none.
	Next string `json:"next,omitempty"`

	// seed reports whether the seed was read. project and name are those of the Shoot in the garden.
	seed          bool
	project, name string
	causes        []*ShootCause
}

// rank orders the causes of a Shoot: a failed Infrastructure or ControlPlane prevents all that follows.
type rank int

const (
	rankBeforeMachines rank = iota
	rankControllers
	rankWorker
	rankMachine
	// rankRepeatingWorker is the rank of a Worker that repeats the error of one of its Machines.
	rankRepeatingWorker
	rankDeployment
	rankVolume
	rankCondition
	// rankShoot is the rank of a Shoot's error, which repeats that of a resource in the seed.
	rankShoot
	rankShootCondition
)

func (d *Shoot) add(of rank, causes ...*ShootCause) {
	for _, c := range causes {
		c.rank = of
	}

	d.causes = append(d.causes, causes...)
}

// ShootCause is a cause, and the object that reports it.
type ShootCause struct {
	// Link names the object.
	Link string `json:"link"`
	// Codes are Gardener's error codes.
	Codes []string `json:"codes,omitempty"`

	Cause

	rank rank
	// failed is set if Gardener does not retry the operation of the object.
	failed bool
}

// VolumesState is the state of the volumes of a Shoot's pods.
type VolumesState struct {
	Count int `json:"count"`
	// Incomplete are the volumes without content yet.
	Incomplete []spi.Object `json:"incomplete"`
}

// addControllers adds the cause for a controller that does not run although there should be Machines.
func (d *Shoot) addControllers(states []controlcluster.Controller, now time.Time) {
	at := slices.IndexFunc(states, func(c controlcluster.Controller) bool { return c.State == controlcluster.Stopped })
	if at < 0 {
		return
	}

	found := &foundMachine{namespace: d.Namespace}
	d.add(rankControllers, &ShootCause{Link: "Deployment " + d.Namespace + "/" + controlcluster.Manager, Cause: *found.controllerCause(&states[at], now)})
}

// addVolumes adds the volumes of the Shoot's pods.
func (d *Shoot) addVolumes(found *spi.VolumesExplanation, now time.Time) {
	d.Volumes = &VolumesState{Count: found.Count, Incomplete: []spi.Object{}}

	for _, what := range found.Unread {
		d.unread("volumes: " + what)
	}

	for i := range found.Incomplete {
		v := &found.Incomplete[i]
		d.Volumes.Incomplete = append(d.Volumes.Incomplete, v.Object)

		if v.Cause != nil && kubevirt.Reportable(v.Cause, now) {
			report := (&foundMachine{}).report(v.Cause, "")
			report.Code = ""
			d.add(rankVolume, &ShootCause{Link: "volume " + v.Name, Cause: *report})
		}
	}
}

// conclude orders the causes, the one to repair first first.
func (d *Shoot) conclude() {
	suspected, unknown := d.addMachines()

	for _, c := range d.causes {
		if c.rank == rankWorker && d.repeatsMachine(c) {
			c.rank = rankRepeatingWorker
		}
	}

	slices.SortStableFunc(d.causes, func(a, b *ShootCause) int { return cmp.Compare(a.rank, b.rank) })

	causes := d.causes

	switch {
	case len(causes) > 0:
		d.Result = ResultCauseFound
	case unknown:
		d.Result = ResultUnknown
	case len(suspected) > 0:
		d.Result = ResultSuspected
		causes = suspected
	default:
		d.Result = ResultNothingWrong
		d.WaitingFor = d.waiting()
	}

	for _, c := range causes {
		d.addCommand(c)
	}

	if len(causes) > 0 {
		d.Cause = causes[0]
		d.MoreCauses = causes[1:]
	}

	d.next()
}

// repeatsMachine reports whether an error of a Worker is that of a Machine.
func (d *Shoot) repeatsMachine(worker *ShootCause) bool {
	return slices.ContainsFunc(d.causes, func(c *ShootCause) bool { return c.rank == rankMachine && strings.Contains(worker.Message, c.Reason) })
}

// addMachines adds the causes of the Machines, and returns the suspected ones. Those of several Machines with the
// same message are one cause.
func (d *Shoot) addMachines() (suspected []*ShootCause, unknown bool) {
	known := map[string]*ShootCause{}

	for i := range d.Machines {
		m := &d.Machines[i]

		if m.Result == ResultUnknown {
			unknown = true
			d.unread("Machine " + m.Name + ": " + m.Error)
		}

		for _, cause := range m.Causes() {
			key := string(m.Result) + cause.Reason + cause.Message
			if known[key] != nil {
				known[key].Link += ", " + m.Name

				continue
			}

			known[key] = &ShootCause{Link: "Machine " + d.Namespace + "/" + m.Name, Cause: *cause}
			if m.Result == ResultCauseFound {
				d.add(rankMachine, known[key])
			} else {
				suspected = append(suspected, known[key])
			}
		}
	}

	return suspected, unknown
}

// addCommand adds when Gardener retries an operation, and the command that retries it now.
func (d *Shoot) addCommand(c *ShootCause) {
	if c.Retry != nil || !slices.Contains([]string{reasonShootFailed, reasonInfrastructureFailed, reasonControlPlaneFailed, reasonWorkerFailed}, c.Reason) {
		return
	}

	operation := "reconcile"
	when := "Gardener retries by itself; to retry now, in the garden:"
	if c.failed {
		operation = "retry"
		when = "Gardener does not retry this error; after the repair, in the garden:"
	}

	c.Retry = &Retry{When: when, Command: fmt.Sprintf("kubectl --namespace=%s annotate shoot %s gardener.cloud/operation=%s",
		cmp.Or(d.project, "NAMESPACE"), cmp.Or(d.name, "NAME"), operation)}
}

// waiting describes what a Shoot without a cause waits for.
func (d *Shoot) waiting() string {
	for _, l := range d.Links {
		if l.Kind != "MachineDeployment" && !strings.Contains(l.State, " "+stateSucceeded) {
			return l.Kind + ": " + l.State
		}
	}

	running := 0

	for i := range d.Machines {
		if m := d.Machines[i].Machine; m != nil && m.Phase == string(v1alpha1.MachineRunning) {
			running++
		} else if waits := d.Machines[i].WaitingFor; waits != "" {
			return "Machine " + d.Machines[i].Name + ": " + waits
		}
	}

	if !d.seed {
		return "the last operation on the Shoot has succeeded"
	}

	return fmt.Sprintf("all operations have succeeded; %d of %s run", running, output.Count(len(d.Machines), "Machine"))
}

// next sets the command that looks further.
func (d *Shoot) next() {
	switch {
	case !d.seed && d.Namespace != "":
		d.Next = "mcm-kubevirt diagnose --shoot=" + d.Shoot + " --seed-kubeconfig=SEED.yaml"
	case d.Cause != nil && strings.HasPrefix(d.Cause.Link, "Machine "):
		machine, _, _ := strings.Cut(strings.TrimPrefix(d.Cause.Link, "Machine "+d.Namespace+"/"), ",")
		d.Next = "mcm-kubevirt diagnose --namespace=" + d.Namespace + " " + machine
	}
}

// Causes returns all causes.
func (d *Shoot) Causes() []*ShootCause {
	return append([]*ShootCause{d.Cause}, d.MoreCauses...)
}
