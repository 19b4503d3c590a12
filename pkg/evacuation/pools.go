package evacuation

import (
	"context"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// pool is a MachineDeployment's machines, in all its MachineSets.
type pool struct {
	// kind and name are the MachineDeployment's, or the MachineSet's that has none; empty for a Machine that stands alone.
	kind, name string
	// desired is how many Machines machine-controller-manager keeps.
	desired int
	// frozen says that machine-controller-manager makes no Machines at the moment.
	frozen   bool
	machines []*v1alpha1.Machine
}

// fleet is what the control cluster says of all machines.
type fleet struct {
	machines map[string]*v1alpha1.Machine
	pools    map[string]*pool // by the name of a Machine in it
}

// fleetNow reads the fleet from the API server: what was decided a moment ago must be in it.
func (c *Controller) fleetNow(ctx context.Context) (*fleet, error) {
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
	f := &fleet{machines: map[string]*v1alpha1.Machine{}, pools: map[string]*pool{}}

	for i := range machines {
		machine := &machines[i]

		p := bySet[controllerOf(machine)]
		if p == nil {
			p = &pool{desired: 1}
		}

		p.machines = append(p.machines, machine)
		f.machines[machine.Name], f.pools[machine.Name] = machine, p
	}

	return f
}

// poolsOf returns the pool of each MachineSet, by its UID. MachineSets of one MachineDeployment share theirs.
func poolsOf(sets []v1alpha1.MachineSet) map[types.UID]*pool {
	bySet, byOwner := map[types.UID]*pool{}, map[types.UID]*pool{}

	for i := range sets {
		set := &sets[i]

		owner, kind, name := set.UID, "MachineSet", set.Name
		if controller := metav1.GetControllerOf(set); controller != nil {
			owner, kind, name = controller.UID, controller.Kind, controller.Name
		}

		if byOwner[owner] == nil {
			byOwner[owner] = &pool{kind: kind, name: name}
		}

		p := byOwner[owner]
		p.desired += int(set.Spec.Replicas)
		p.frozen = p.frozen || isFrozen(set)
		bySet[set.UID] = p
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

// available says whether a machine carries its share of the shoot's load.
func available(machine *v1alpha1.Machine) bool {
	phase := machine.Status.CurrentStatus.Phase

	// Without a target cluster machine-controller-manager knows no nodes, and machines are Available.
	return machine.DeletionTimestamp == nil && (phase == v1alpha1.MachineRunning || phase == v1alpha1.MachineAvailable)
}
