// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// machinePool holds the machines of a MachineDeployment, in all its MachineSets.
type machinePool struct {
	// kind and name identify the MachineDeployment, or a MachineSet without a MachineDeployment. They
	// are empty for a Machine without an owner.
	kind, name string
	// desired is the number of replicas.
	desired int
	// frozen is set while machine-controller-manager does not create Machines.
	frozen   bool
	machines []*v1alpha1.Machine
}

// title names the pool in messages.
func (p *machinePool) title() string {
	if p.name == "" {
		return "a Machine without a MachineSet"
	}

	return p.kind + " " + p.name
}

// fleet is the state of all machines in the control cluster.
type fleet struct {
	machines map[string]*v1alpha1.Machine
	pools    map[string]*machinePool // by the name of a Machine in it
}

// readFleet reads from the API server, not from a cache, to include the most recent changes.
func (c *Controller) readFleet(ctx context.Context) (*fleet, error) {
	machines, err := c.options.Machines.Machines(c.options.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Machines in %s: %w", c.options.Namespace, err)
	}

	sets, err := c.options.Machines.MachineSets(c.options.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineSets in %s: %w", c.options.Namespace, err)
	}

	return newFleet(machines.Items, sets.Items), nil
}

func newFleet(machines []v1alpha1.Machine, sets []v1alpha1.MachineSet) *fleet {
	bySet := poolsOf(sets)
	f := &fleet{machines: map[string]*v1alpha1.Machine{}, pools: map[string]*machinePool{}}

	for i := range machines {
		machine := &machines[i]

		pool := bySet[controllerOf(machine)]
		if pool == nil {
			pool = &machinePool{desired: 1}
		}

		pool.machines = append(pool.machines, machine)
		f.machines[machine.Name] = machine
		f.pools[machine.Name] = pool
	}

	return f
}

// poolsOf returns the pool of each MachineSet, by its UID.
// MachineSets of one MachineDeployment share a pool.
func poolsOf(sets []v1alpha1.MachineSet) map[types.UID]*machinePool {
	bySet := map[types.UID]*machinePool{}
	byOwner := map[types.UID]*machinePool{}

	for i := range sets {
		set := &sets[i]

		owner := set.UID
		kind := "MachineSet"
		name := set.Name
		if controller := metav1.GetControllerOf(set); controller != nil {
			owner = controller.UID
			kind = controller.Kind
			name = controller.Name
		}

		if byOwner[owner] == nil {
			byOwner[owner] = &machinePool{kind: kind, name: name}
		}

		pool := byOwner[owner]
		pool.desired += int(set.Spec.Replicas)
		pool.frozen = pool.frozen || isFrozen(set)
		bySet[set.UID] = pool
	}

	return bySet
}

func isFrozen(set *v1alpha1.MachineSet) bool {
	for _, condition := range set.Status.Conditions {
		if condition.Type == v1alpha1.MachineSetFrozen && condition.Status == v1alpha1.ConditionTrue {
			return true
		}
	}

	return false
}

func controllerOf(machine *v1alpha1.Machine) types.UID {
	return ptr.Deref(metav1.GetControllerOf(machine), metav1.OwnerReference{}).UID
}

// isAvailable reports whether a machine is available to the shoot.
func isAvailable(machine *v1alpha1.Machine) bool {
	phase := machine.Status.CurrentStatus.Phase

	// Without a target cluster, machine-controller-manager cannot see Nodes, and its machines are
	// only Available.
	return machine.DeletionTimestamp == nil && (phase == v1alpha1.MachineRunning || phase == v1alpha1.MachineAvailable)
}
