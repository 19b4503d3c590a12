// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// decodeObserve decodes a request that observes a machine.
func (p *MachinePlugin) decodeObserve(
	machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret,
) (*spi.ObserveMachineInput, error) {
	kubeconfig, identity, err := access(machine, class, secret)
	if err != nil {
		return nil, err
	}

	return &spi.ObserveMachineInput{
		Kubeconfig:      kubeconfig,
		Name:            machine.Name,
		Identity:        identity,
		Deleting:        machine.DeletionTimestamp != nil,
		HasProviderID:   machine.Spec.ProviderID != "",
		Recorded:        machineclass.RecordedAddress(machine),
		CreationTimeout: p.creationTimeout(machine),
		Report:          p.reportFor(machine),
	}, nil
}

// access returns the kubeconfig of the provider cluster and the identity of a machine. Both may be
// missing for a Machine that an operator has abandoned, which must not depend on them.
func access(machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret) ([]byte, spi.Identity, error) {
	kubeconfig, identity, err := machineclass.AccessToMachine(machine, class, secret)
	if isAbandoned(machine) && machine.Name != "" && class != nil && errors.Is(err, spi.ErrInvalid) {
		return nil, spi.Identity{}, nil
	}

	return kubeconfig, identity, err
}

func isAbandoned(machine *v1alpha1.Machine) bool {
	return machine != nil && spi.RecordedAddressOf(machine.Annotations).IsAbandoned()
}

func (p *MachinePlugin) creationTimeout(machine *v1alpha1.Machine) time.Duration {
	if c := machine.Spec.MachineConfiguration; c != nil && c.MachineCreationTimeout != nil {
		return c.MachineCreationTimeout.Duration
	}

	return p.options.CreationTimeout
}

func invalid(format string, args ...any) error {
	return spi.Errorf(spi.ErrInvalid, format, args...)
}
