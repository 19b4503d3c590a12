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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// subject is what the control cluster says of the machine that a call is about.
type subject struct {
	name     string
	identity spi.Identity
	recorded *spi.AddressRecord
	// made says that the Machine has had a VirtualMachine.
	made bool
}

func subjectOfObservation(in *spi.ObserveMachineInput) subject {
	return subject{name: in.Name, identity: in.Identity, recorded: in.Recorded, made: in.HasProviderID || in.Recorded != nil}
}

// subjectOfDeletion leaves out what machine-controller-manager makes up for an orphan, of which no Machine says anything.
func subjectOfDeletion(in *spi.DeleteMachineInput) subject {
	return subject{
		name: in.Name, identity: in.Identity, recorded: in.Recorded, made: !in.Orphan && (in.HasProviderID || in.Recorded != nil),
	}
}

func subjectOfExplanation(in *spi.ExplainMachineInput) subject {
	return subject{name: in.Name, identity: in.Identity, recorded: in.Recorded, made: in.HasProviderID || in.Recorded != nil}
}

// addressOf returns the present address of a VirtualMachine, or of all of them if the UID is empty.
func (s *session) addressOf(id spi.Identity, uid types.UID) spi.Address {
	return spi.Address{Server: s.clients.Server, Namespace: s.clients.Namespace, Cluster: id.Cluster, Role: id.Role, UID: uid}
}

// owns says whether the VirtualMachine that was found under a machine's name, nil if there is none, is the machine's. The error wraps
// spi.ErrAddressChanged if the machine's own one may exist, and is not visible: then it must count neither as missing nor as deleted.
func (s *session) owns(of subject, vm *kubevirtv1.VirtualMachine) (bool, error) {
	elsewhere := of.recorded.Elsewhere(s.addressOf(of.identity, ""))
	ours := vm != nil && render.Owns(of.identity, vm.Labels)

	switch {
	case ours && (!elsewhere || of.recorded.Admits(vm.UID)):
		return true, nil
	case of.recorded.GivenUp():
		return false, nil
	case elsewhere:
		return false, s.notHere(of, vm)
	case vm != nil && of.claims(vm):
		return false, s.wrongTags(of, "VirtualMachine", vm)
	default:
		return false, nil
	}
}

// claims says whether an object of the machine's name, but not of its tags, is the machine's: by its UID, or, if the UID is not known, by its
// label. A Machine that never had a VirtualMachine has no claim: another shoot's may have the name.
func (of subject) claims(object metav1.Object) bool {
	if of.recorded != nil && of.recorded.UID != "" {
		return of.recorded.Names(object.GetUID())
	}

	return of.made && object.GetLabels()[render.LabelMachine] == of.name
}

// lost says whether an error is that of a provider cluster which no longer shows a machine that an operator has given up: the cluster may be
// gone, or may no longer accept the credentials.
func (of subject) lost(err error) bool {
	return of.recorded.GivenUp() && slices.ContainsFunc(
		[]error{spi.ErrUnavailable, spi.ErrUnauthenticated, spi.ErrForbidden, spi.ErrPrecondition},
		func(sentinel error) bool { return errors.Is(err, sentinel) },
	)
}

// notHere is the refusal for a machine that was made elsewhere.
func (s *session) notHere(of subject, vm *kubevirtv1.VirtualMachine) error {
	here := s.addressOf(of.identity, "")
	found := fmt.Sprintf("VirtualMachine %s is not found in %s", of.name, here)

	switch {
	case vm != nil && of.recorded.Names(vm.UID):
		found = fmt.Sprintf("VirtualMachine %s has other tags than those in %s", of.name, here)
	case vm != nil:
		found = fmt.Sprintf("VirtualMachine %s in %s is not the one of the Machine", of.name, here)
	}

	if of.recorded.Fault != "" {
		return &spi.Error{
			Kind:    spi.ErrAddressChanged,
			Message: fmt.Sprintf("%s, and annotation %s of the Machine cannot be read: %s", found, spi.AnnotationAddress, of.recorded.Fault),
			Remedy:  "correct the annotation, or " + giveUp(of.name),
		}
	}

	restore := "restore " + changed(of.recorded.Address, here)
	if vm != nil && of.recorded.Names(vm.UID) {
		restore = "label the VirtualMachine with the tags of the MachineClass, " + restore
	}

	return &spi.Error{
		Kind:    spi.ErrAddressChanged,
		Message: fmt.Sprintf("the Machine was made in %s; %s", of.recorded, found),
		Remedy:  fmt.Sprintf("%s, or %s", restore, giveUp(of.name)),
	}
}

// changed names what a person has to restore.
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

// wrongTags is the refusal for an object of the machine that has other tags than the class.
func (s *session) wrongTags(of subject, kind string, object metav1.Object) error {
	has := object.GetLabels()

	return &spi.Error{
		Kind: spi.ErrAddressChanged,
		Message: fmt.Sprintf("%s %s is the Machine's, and has the tags %q and %q instead of %s and %s of the MachineClass",
			kind, s.path(of.name), has[v1alpha1.TagCluster], has[v1alpha1.TagRole], of.identity.Cluster, of.identity.Role),
		Remedy: fmt.Sprintf("restore the tags of the MachineClass or of the %s, or %s", kind, giveUp(of.name)),
	}
}

// giveUp is how a person tells the driver not to look for the VirtualMachine any more.
func giveUp(machine string) string {
	return fmt.Sprintf("give the machine up: kubectl annotate --overwrite machine %s %s=%s", machine, spi.AnnotationAddress, spi.AddressAbandoned)
}
