// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass

import (
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// labelMachineDeployment is the label of a Machine with the name of its MachineDeployment, which
// Gardener sets.
const labelMachineDeployment = "name"

// DecodeCreateMachine decodes and validates the specification of a machine. The error wraps
// spi.ErrInvalid, and lists all errors of the ProviderSpec and the user data. The result shares memory with the
// arguments.
func DecodeCreateMachine(
	machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret, allowed apivalidation.Options,
) (*spi.CreateMachineInput, error) {
	if err := validateNewMachine(machine); err != nil {
		return nil, err
	}

	kubeconfig, err := Kubeconfig(class, secret)
	if err != nil {
		return nil, err
	}

	if err := validatePlacement(machine, class); err != nil {
		return nil, err
	}

	userData := secret.Data[apiv1alpha1.SecretKeyUserData]
	if len(userData) == 0 {
		return nil, missingKey(class, apiv1alpha1.SecretKeyUserData)
	}

	spec, errs := apivalidation.Decode(class.ProviderSpec.Raw, allowed)
	if errs = append(errs, apivalidation.ValidateUserData(userData)...); len(errs) > 0 {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", errs.ToAggregate())
	}

	return &spi.CreateMachineInput{
		Kubeconfig:   kubeconfig,
		Name:         machine.Name,
		UID:          machine.UID,
		Deployment:   machine.Labels[labelMachineDeployment],
		WorkerPool:   machine.Spec.NodeTemplateSpec.Labels[apiv1alpha1.LabelWorkerPool],
		Architecture: Architecture(class),
		UserData:     userData,
		Spec:         spec,
		Class:        ToSPI(class),
		Evacuation:   allowed.Evacuation,
		LogConsole:   allowed.LogConsole,
	}, nil
}

func validateNewMachine(machine *v1alpha1.Machine) error {
	if machine == nil {
		return invalid("the request has no Machine")
	}

	if msgs := validation.IsDNS1123Label(machine.Name); len(msgs) > 0 {
		return invalid("Machine name %q is not a valid name of a VirtualMachine and a Node: %s", machine.Name, msgs[0])
	}

	if machine.UID == "" {
		return invalid("Machine %s has no UID", machine.Name)
	}

	return nil
}

// validatePlacement validates the fields outside the ProviderSpec that become labels of the
// machine's objects, or select its provider node.
func validatePlacement(machine *v1alpha1.Machine, class *v1alpha1.MachineClass) error {
	pool := machine.Spec.NodeTemplateSpec.Labels[apiv1alpha1.LabelWorkerPool]
	if msgs := validation.IsValidLabelValue(pool); len(msgs) > 0 {
		return invalid("label %s in the nodeTemplate of Machine %s: %s", apiv1alpha1.LabelWorkerPool, machine.Name, msgs[0])
	}

	if msgs := validation.IsValidLabelValue(machine.Labels[labelMachineDeployment]); len(msgs) > 0 {
		return invalid("label %s of Machine %s: %s", labelMachineDeployment, machine.Name, msgs[0])
	}

	if !isKnownArchitecture(class) {
		return invalid("nodeTemplate.architecture of MachineClass %s: %q is not supported; use one of %s", class.Name, Architecture(class),
			strings.Join(architectures, ", "))
	}

	return nil
}

// AccessToMachine returns the kubeconfig of the provider cluster and the identity of an existing
// machine. The error wraps spi.ErrNotFound for a Machine whose name no VirtualMachine can have, so
// that the Machine can be deleted, and otherwise spi.ErrInvalid. Machines of the predecessor may
// have names that DecodeCreateMachine refuses.
func AccessToMachine(
	machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret,
) ([]byte, spi.Identity, error) {
	if machine == nil || machine.Name == "" {
		return nil, spi.Identity{}, invalid("the request has no Machine, or one without a name")
	}

	if len(validation.IsDNS1123Subdomain(machine.Name)) > 0 {
		return nil, spi.Identity{}, spi.Errorf(spi.ErrNotFound, "no VirtualMachine can be named %q", machine.Name)
	}

	return Access(class, secret)
}

// RecordedAddress returns the address that a Machine records, or nil. Clients of the driver over
// gRPC may record it in LastKnownState alone, as driver.proto describes.
func RecordedAddress(machine *v1alpha1.Machine) *spi.RecordedAddress {
	if recorded := spi.RecordedAddressOf(machine.Annotations); recorded != nil {
		return recorded
	}

	address, err := spi.DecodeAddress(machine.Status.LastKnownState)
	if err != nil {
		return nil
	}

	return &spi.RecordedAddress{Address: address}
}
