// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// blockerTimeout bounds the search for the blocker of a deletion.
const blockerTimeout = 10 * time.Second

// blocker is the reason why a machine still exists after its deletion.
type blocker struct{ description, remedy string }

// blocker returns the obstacle to a machine's deletion. Its remedy is empty if it is not known.
func (r *reader) blocker(ctx context.Context, name string, now time.Time) blocker {
	ctx, cancel := context.WithTimeout(ctx, blockerTimeout)
	defer cancel()

	instance, err := r.clients.Instances().Get(ctx, name)
	if err != nil {
		return blocker{description: "the VirtualMachineInstance cannot be read"}
	}

	vm, err := r.clients.VirtualMachines().Get(ctx, name)

	switch {
	case instance != nil && instance.DeletionTimestamp == nil && vm != nil && len(foreignFinalizers(vm)) > 0:
		return blocker{
			description: fmt.Sprintf("the VirtualMachine has %s, and its VirtualMachineInstance is %s and is not being deleted",
				diagnose.FinalizersOf(vm), instance.Status.Phase),
			remedy: "delete the VirtualMachineInstance, and " + finalizerRemedy(vm),
		}
	case instance != nil:
		return r.blockerOf(ctx, instance, now)
	case err != nil || vm == nil:
		return blocker{description: "it has just been deleted, or cannot be read"}
	default:
		return blocker{description: "the VirtualMachine has " + diagnose.FinalizersOf(vm), remedy: finalizerRemedy(vm)}
	}
}

// blockerOf returns the obstacle to the termination of an instance. Only its provider node can
// terminate it: if the node does not respond, an operator has to act.
func (r *reader) blockerOf(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, now time.Time) blocker {
	if dead := diagnose.DeadNode(r.podsOf(ctx, instance), now); dead != nil {
		return blocker{description: dead.Message, remedy: dead.Remedy}
	}

	state := fmt.Sprintf("the VirtualMachineInstance is %s", instance.Status.Phase)
	if node := nodeOf(instance); node != "" && !instance.IsFinal() {
		return blocker{description: fmt.Sprintf("%s on provider node %q", state, node), remedy: "check that node"}
	}

	return blocker{description: state + ", with " + diagnose.FinalizersOf(instance), remedy: finalizerRemedy(instance)}
}

// finalizerRemedy returns who has to remove the finalizers of an object. KubeVirt removes its own last, and
// Kubernetes' garbage collector its own when it has handled the dependents.
func finalizerRemedy(object metav1.Object) string {
	foreign := foreignFinalizers(object)
	others := slices.DeleteFunc(slices.Clone(foreign), func(finalizer string) bool {
		return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
	})

	switch {
	case len(others) > 0:
		return fmt.Sprintf("repair the component that removes the finalizer %s, or remove the finalizer", strings.Join(others, ", "))
	case len(foreign) > 0:
		return fmt.Sprintf("check that kube-controller-manager of the provider cluster runs, whose garbage collector removes the finalizer %s, "+
			"and which of the dependents (DataVolumes, pods) still exist", strings.Join(foreign, ", "))
	default:
		return "check that virt-controller runs"
	}
}

// foreignFinalizers returns the finalizers that KubeVirt does not remove.
func foreignFinalizers(object metav1.Object) []string {
	return slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(finalizer string) bool {
		domain, _, _ := strings.Cut(finalizer, "/")

		return domain == kubevirtv1.GroupVersion.Group || domain == kubevirtv1.DeprecatedVirtualMachineInstanceFinalizer
	})
}
