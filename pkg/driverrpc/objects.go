// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// codec converts the parts of requests between machine-controller-manager's types and the wire
// format, and keeps the first error. Kubernetes objects are JSON in the wire format.
type codec struct {
	err error
}

func (c *codec) encodeMachine(machine *v1alpha1.Machine) *driverv1.Machine {
	return &driverv1.Machine{Json: encodeJSON(c, machine)}
}

func (c *codec) decodeMachine(wire *driverv1.Machine) *v1alpha1.Machine {
	return decodeJSON[v1alpha1.Machine](c, wire.GetJson())
}

func (c *codec) encodeClass(class *v1alpha1.MachineClass) *driverv1.MachineClass {
	return &driverv1.MachineClass{Json: encodeJSON(c, class)}
}

func (c *codec) decodeClass(wire *driverv1.MachineClass) *v1alpha1.MachineClass {
	return decodeJSON[v1alpha1.MachineClass](c, wire.GetJson())
}

func (c *codec) encodeVolumes(specs []*corev1.PersistentVolumeSpec) []*driverv1.PersistentVolumeSpec {
	wire := make([]*driverv1.PersistentVolumeSpec, len(specs))
	for i, spec := range specs {
		wire[i] = &driverv1.PersistentVolumeSpec{Json: encodeJSON(c, spec)}
	}

	return wire
}

func (c *codec) decodeVolumes(wire []*driverv1.PersistentVolumeSpec) []*corev1.PersistentVolumeSpec {
	specs := make([]*corev1.PersistentVolumeSpec, len(wire))
	for i, spec := range wire {
		specs[i] = decodeJSON[corev1.PersistentVolumeSpec](c, spec.GetJson())
	}

	return specs
}

func encodeSecret(secret *corev1.Secret) *driverv1.Secret {
	return convert(secret, func(s *corev1.Secret) *driverv1.Secret { return &driverv1.Secret{Data: s.Data} })
}

func decodeSecret(wire *driverv1.Secret) *corev1.Secret {
	return convert(wire, func(s *driverv1.Secret) *corev1.Secret { return &corev1.Secret{Data: s.GetData()} })
}

func encodeAddresses(addresses []corev1.NodeAddress) []*driverv1.NodeAddress {
	var wire []*driverv1.NodeAddress
	for _, a := range addresses {
		wire = append(wire, &driverv1.NodeAddress{Type: string(a.Type), Address: a.Address})
	}

	return wire
}

func decodeAddresses(wire []*driverv1.NodeAddress) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, a := range wire {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.GetType()), Address: a.GetAddress()})
	}

	return addresses
}

// encodeJSON returns an object's JSON, or nil for nil. It does not escape HTML characters, so that a
// providerSpec arrives as its author wrote it.
func encodeJSON[T any](c *codec, object *T) []byte {
	if object == nil || c.err != nil {
		return nil
	}

	var raw bytes.Buffer

	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(object); err != nil {
		c.err = fmt.Errorf("encode %T: %w", object, err)
	}

	return raw.Bytes()
}

// decodeJSON is the reverse of encodeJSON. It matches field names case-sensitively, as an API
// server does.
func decodeJSON[T any](c *codec, raw []byte) *T {
	if len(raw) == 0 || c.err != nil {
		return nil
	}

	object := new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		c.err = fmt.Errorf("decode %T: %w", object, err)
	}

	return object
}
