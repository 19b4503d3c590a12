// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// targetMachine is the machine of a call, as the control cluster knows it.
type targetMachine struct {
	name     string
	identity spi.Identity
	address  *spi.RecordedAddress
	// created is set if the Machine has had a VirtualMachine.
	created bool
}

func newTarget(name string, id spi.Identity, recorded *spi.RecordedAddress, hasProviderID bool) targetMachine {
	return targetMachine{name: name, identity: id, address: recorded, created: hasProviderID || recorded != nil}
}

// targetOfDeletion ignores the fields of an orphan, for which machine-controller-manager sends a
// fabricated Machine.
func targetOfDeletion(in *spi.DeleteMachineInput) targetMachine {
	target := newTarget(in.Name, in.Identity, in.Recorded, in.HasProviderID)
	target.created = target.created && !in.Orphan

	return target
}

// addressOf returns the current address of a VirtualMachine, or of all of them if the UID is empty.
func addressOf(c *providerapi.Clients, id spi.Identity, uid types.UID) spi.Address {
	return spi.Address{Server: c.Server, Namespace: c.Namespace, Cluster: id.Cluster, Role: id.Role, UID: uid}
}

// owns reports whether the VirtualMachine with the machine's name (nil if there is none) belongs to
// the machine. The error wraps spi.ErrAddressChanged if the machine's VirtualMachine may exist
// without being visible: it must count neither as missing nor as deleted.
func owns(c *providerapi.Clients, target targetMachine, vm *kubevirtv1.VirtualMachine) (bool, error) {
	elsewhere := target.address.Differs(addressOf(c, target.identity, ""))
	ours := vm != nil && render.Owns(target.identity, vm.Labels)

	switch {
	case ours && (!elsewhere || target.address.MayBe(vm.UID)):
		return true, nil
	case target.address.IsAbandoned():
		return false, nil
	case elsewhere:
		return false, addressChanged(c, target, vm)
	case vm != nil && target.claims(vm):
		return false, wrongTags(c, target, "VirtualMachine", vm)
	default:
		return false, nil
	}
}

// claims reports whether an object with the machine's name, but without its tags, belongs to the
// machine according to its UID or, if the UID is not known, to its label. A Machine that never had
// a VirtualMachine claims no object, since the object may belong to another shoot.
func (t targetMachine) claims(object metav1.Object) bool {
	if t.address != nil && t.address.UID != "" {
		return t.address.Names(object.GetUID())
	}

	return t.created && object.GetLabels()[render.LabelMachine] == t.name
}

// tolerates reports whether an error of a provider cluster or of its credentials can be ignored
// because an operator has abandoned the machine: the cluster may no longer exist, or may refuse the
// credentials, and the kubeconfig may be missing or unusable.
func (t targetMachine) tolerates(err error) bool {
	return t.address.IsAbandoned() && slices.ContainsFunc(
		[]error{spi.ErrUnavailable, spi.ErrUnauthenticated, spi.ErrForbidden, spi.ErrPrecondition, spi.ErrInvalid},
		func(sentinel error) bool { return errors.Is(err, sentinel) },
	)
}

// addressChanged returns the error for a machine that was created at another address.
func addressChanged(c *providerapi.Clients, target targetMachine, vm *kubevirtv1.VirtualMachine) error {
	here := addressOf(c, target.identity, "")
	found := fmt.Sprintf("VirtualMachine %s is not found in %s", target.name, here)

	switch {
	case vm != nil && target.address.Names(vm.UID):
		found = fmt.Sprintf("VirtualMachine %s has tags other than those in %s", target.name, here)
	case vm != nil:
		found = fmt.Sprintf("VirtualMachine %s in %s does not belong to the Machine", target.name, here)
	}

	if target.address.Fault != "" {
		return &spi.Error{
			Kind:    spi.ErrAddressChanged,
			Message: fmt.Sprintf("%s, and annotation %s of the Machine cannot be read: %s", found, spi.AnnotationAddress, target.address.Fault),
			Remedy:  "correct the annotation, or " + abandon(target.name),
		}
	}

	restore := "restore " + changed(target.address.Address, here)
	if vm != nil && target.address.Names(vm.UID) {
		restore = "label the VirtualMachine with the tags of the MachineClass, " + restore
	}

	return &spi.Error{
		Kind:    spi.ErrAddressChanged,
		Message: fmt.Sprintf("the Machine was created in %s; %s", target.address, found),
		Remedy:  fmt.Sprintf("%s, or %s", restore, abandon(target.name)),
	}
}

// changed lists the settings that an operator has to restore.
func changed(recorded, here spi.Address) string {
	var parts []string

	if recorded.Server != here.Server {
		parts = append(parts, "the server of the kubeconfig")
	}

	if recorded.Namespace != here.Namespace {
		parts = append(parts, "the namespace of the kubeconfig")
	}

	if recorded.Cluster != here.Cluster || recorded.Role != here.Role {
		parts = append(parts, "the tags of the MachineClass")
	}

	return strings.Join(parts, " and ")
}

// wrongTags returns the error for an object of the machine that has other tags than the class.
func wrongTags(c *providerapi.Clients, target targetMachine, kind string, object metav1.Object) error {
	has := object.GetLabels()

	return &spi.Error{
		Kind: spi.ErrAddressChanged,
		Message: fmt.Sprintf("%s %s belongs to the Machine, but has the tags %q and %q instead of %s and %s of the MachineClass",
			kind, c.Path(target.name), has[v1alpha1.TagCluster], has[v1alpha1.TagRole], target.identity.Cluster, target.identity.Role),
		Remedy: fmt.Sprintf("restore the tags of the MachineClass or of the %s, or %s", kind, abandon(target.name)),
	}
}

// abandon returns the command with which an operator abandons a machine.
func abandon(machine string) string {
	return fmt.Sprintf("abandon the machine: kubectl annotate --overwrite machine %s %s=%s", machine, spi.AnnotationAddress, spi.AddressAbandoned)
}
