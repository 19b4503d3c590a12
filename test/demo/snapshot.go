// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// snapshot holds the objects of both clusters at one moment, by name.
type snapshot struct {
	machines      map[string]object
	classes       map[string]object
	shootNodes    map[string]object
	vms           map[string]object
	instances     map[string]object
	providerNodes map[string]object
}

const (
	controlKinds  = "machines,machineclasses,nodes"
	providerKinds = "virtualmachines,virtualmachineinstances,nodes"
)

// look takes a snapshot. It queries both clusters concurrently.
func (d *demo) look(ctx context.Context) (snapshot, error) {
	var control, provider []object
	var failed [2]error
	var both sync.WaitGroup
	both.Go(func() { control, failed[0] = d.list(ctx, d.control(), controlKinds) })
	both.Go(func() { provider, failed[1] = d.list(ctx, d.provider(), providerKinds) })
	both.Wait()
	return newSnapshot(control, provider), errors.Join(failed[:]...)
}

func newSnapshot(control, provider []object) snapshot {
	return snapshot{
		machines:      byName(control, "Machine"),
		classes:       byName(control, "MachineClass"),
		shootNodes:    byName(control, "Node"),
		vms:           byName(provider, "VirtualMachine"),
		instances:     byName(provider, "VirtualMachineInstance"),
		providerNodes: byName(provider, "Node"),
	}
}

func byName(all []object, kind string) map[string]object {
	found := map[string]object{}
	for _, o := range all {
		if o.Kind == kind {
			found[o.Metadata.Name] = o
		}
	}
	return found
}

// row is one machine with all its objects. A machine and its VM have the same name.
type row struct {
	name         string
	class        string
	phase        string
	deleted      bool
	vm           string
	providerNode string
	zone         string // of the provider node
	asked        string // zone in the MachineClass
	shootNode    string
	created      time.Time
	errorCode    string
	description  string
}

const (
	none         = "-"
	noZone       = "(none)"
	zoneLabel    = "topology.kubernetes.io/zone"
	nodeLabel    = "node" // machine-controller-manager stores the Node's name in this label
	runningPhase = "Running"
	runningVM    = "Running"
	waitingVM    = "DataVolumeError" // see docs/images.md
	readyNode    = "Ready"
)

// rows returns the machines, and VMs without a machine, ordered by class and age.
func (s snapshot) rows() []row {
	names := map[string]bool{}
	for name := range s.machines {
		names[name] = true
	}
	for name := range s.vms {
		names[name] = true
	}
	rows := make([]row, 0, len(names))
	for name := range names {
		rows = append(rows, s.row(name))
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.class, b.class), a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
	return rows
}

func (s snapshot) row(name string) row {
	machine := s.machines[name]
	vm := s.vms[name]
	r := row{
		name:         name,
		class:        machine.Spec.Class.Name,
		deleted:      !machine.Metadata.Deleted.IsZero(),
		phase:        cmp.Or(machine.Status.CurrentStatus.Phase, none),
		vm:           cmp.Or(vm.Status.PrintableStatus, none),
		providerNode: cmp.Or(s.instances[name].Status.NodeName, none),
		zone:         none,
		shootNode:    none,
		asked:        s.classes[machine.Spec.Class.Name].ProviderSpec.Zone,
		created:      machine.Metadata.Created,
		errorCode:    machine.Status.LastOperation.ErrorCode,
		description:  machine.Status.LastOperation.Description,
	}
	if r.created.IsZero() {
		r.created = vm.Metadata.Created
	}
	if node, ok := s.providerNodes[r.providerNode]; ok {
		r.zone = cmp.Or(node.Metadata.Labels[zoneLabel], noZone)
	}
	if node, ok := s.shootNodes[machine.Metadata.Labels[nodeLabel]]; ok {
		r.shootNode = "NotReady"
		if node.ready() {
			r.shootNode = readyNode
		}
	}
	return r
}

// settled reports whether a machine is running and not being deleted.
func (r row) settled() bool {
	return r.phase == runningPhase && r.vm == runningVM && r.shootNode == readyNode && !r.deleted
}

// workers maps classes to their wanted number of machines. Missing classes should have none.
type workers map[string]int

func (w workers) total() int {
	total := 0
	for _, n := range w {
		total += n
	}
	return total
}

func (w workers) String() string {
	if w.total() == 0 {
		return "no machine, VM or shoot node"
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(w)) {
		parts = append(parts, fmt.Sprintf("%d of %s", w[class], class))
	}
	return strings.Join(parts, " and ") + ", Running, with Ready shoot nodes and nothing else"
}

// without returns a snapshot without the machines of a class, and what belongs to them.
func (s snapshot) without(class string) snapshot {
	machines := s.machines
	for _, objects := range []*map[string]object{&s.machines, &s.vms, &s.instances, &s.shootNodes} {
		*objects = maps.Clone(*objects)
		maps.DeleteFunc(*objects, func(name string, _ object) bool {
			machine, exists := machines[name]
			return exists && machine.Spec.Class.Name == class
		})
	}
	return s
}

// reached returns the difference from the wanted workers, or "".
func (s snapshot) reached(want workers) string {
	settled := workers{}
	others := 0
	for _, r := range s.rows() {
		if r.settled() {
			settled[r.class]++
		} else {
			others++
		}
	}
	var differs []string
	for _, class := range slices.Sorted(maps.Keys(want)) {
		if settled[class] != want[class] {
			differs = append(differs, fmt.Sprintf("%d of %s Running and Ready", settled[class], class))
		}
	}
	if settled.total() > want.total() {
		differs = append(differs, fmt.Sprintf("%d Running in all", settled.total()))
	}
	if others > 0 {
		differs = append(differs, fmt.Sprintf("%d coming or going", others))
	}
	for what, n := range map[string]int{"VMIs": len(s.instances), "shoot nodes": len(s.shootNodes)} {
		if n != want.total() {
			differs = append(differs, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.Sort(differs)
	return strings.Join(differs, ", ")
}
