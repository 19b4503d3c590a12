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

// objects holds the objects of a request. It has the same fields as the requests for one machine,
// so that they convert to each other.
type objects struct {
	Machine      *v1alpha1.Machine
	MachineClass *v1alpha1.MachineClass
	Secret       *corev1.Secret
}

// wireObjects holds the objects of a request in their wire format.
type wireObjects struct {
	machine *driverv1.Machine
	class   *driverv1.MachineClass
	secret  *driverv1.Secret
}

func (o *objects) encode() (wireObjects, error) {
	machine, err := encodeJSON(o.Machine)
	if err != nil {
		return wireObjects{}, err
	}

	class, err := encodeJSON(o.MachineClass)
	if err != nil {
		return wireObjects{}, err
	}

	wire := wireObjects{machine: &driverv1.Machine{Json: machine}, class: &driverv1.MachineClass{Json: class}}
	if o.Secret != nil {
		wire.secret = &driverv1.Secret{Data: o.Secret.Data}
	}

	return wire, nil
}

func (w wireObjects) decode() (*objects, error) {
	o := &objects{}
	if w.secret != nil {
		o.Secret = &corev1.Secret{Data: w.secret.GetData()}
	}

	var err error
	if o.Machine, err = decodeJSON[v1alpha1.Machine](w.machine.GetJson()); err != nil {
		return o, err
	}

	o.MachineClass, err = decodeJSON[v1alpha1.MachineClass](w.class.GetJson())

	return o, err
}

func encodeVolumes(specs []*corev1.PersistentVolumeSpec) ([]*driverv1.PersistentVolumeSpec, error) {
	wire := make([]*driverv1.PersistentVolumeSpec, len(specs))

	for i, spec := range specs {
		raw, err := encodeJSON(spec)
		if err != nil {
			return nil, err
		}

		wire[i] = &driverv1.PersistentVolumeSpec{Json: raw}
	}

	return wire, nil
}

func decodeVolumes(wire []*driverv1.PersistentVolumeSpec) (specs []*corev1.PersistentVolumeSpec, err error) {
	specs = make([]*corev1.PersistentVolumeSpec, len(wire))

	for i, w := range wire {
		if specs[i], err = decodeJSON[corev1.PersistentVolumeSpec](w.GetJson()); err != nil {
			return nil, err
		}
	}

	return specs, nil
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

// encodeJSON returns an object's JSON, and nothing for nil. It does not escape HTML characters, so
// that a providerSpec arrives as its author wrote it.
func encodeJSON[T any](object *T) ([]byte, error) {
	if object == nil {
		return nil, nil
	}

	var raw bytes.Buffer

	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(object); err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}

	return raw.Bytes(), nil
}

// decodeJSON is the reverse of encodeJSON. It matches field names case-sensitively, as an API
// server does.
func decodeJSON[T any](raw []byte) (*T, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // An absent object is no error.
	}

	object := new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("decode %T: %w", object, err)
	}

	return object, nil
}
