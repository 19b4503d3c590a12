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

// encode returns an object's JSON, and nothing for nil. It does not escape HTML characters, so that
// a providerSpec arrives as its author wrote it.
func encode[T any](object *T) ([]byte, error) {
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

// decode is the reverse of encode. It reads field names as an API server does.
func decode[T any](raw []byte) (object *T, err error) {
	if len(raw) == 0 {
		return object, nil
	}

	object = new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, fmt.Errorf("decode %T: %w", object, err)
	}

	return object, nil
}

// subject holds the objects of a request.
type subject struct {
	machine *v1alpha1.Machine
	class   *v1alpha1.MachineClass
	secret  *corev1.Secret
}

// wireSubject is a subject in its wire format.
type wireSubject struct {
	machine *driverv1.Machine
	class   *driverv1.MachineClass
	secret  *driverv1.Secret
}

func encodeSubject(s subject) (wireSubject, error) {
	machine, err := encode(s.machine)
	if err != nil {
		return wireSubject{}, err
	}

	class, err := encode(s.class)
	if err != nil {
		return wireSubject{}, err
	}

	wire := wireSubject{machine: &driverv1.Machine{Json: machine}, class: &driverv1.MachineClass{Json: class}}
	if s.secret != nil {
		wire.secret = &driverv1.Secret{Data: s.secret.Data}
	}

	return wire, nil
}

func decodeSubject(wire wireSubject) (s subject, err error) {
	if s.machine, err = decode[v1alpha1.Machine](wire.machine.GetJson()); err != nil {
		return s, err
	}

	if s.class, err = decode[v1alpha1.MachineClass](wire.class.GetJson()); err != nil {
		return s, err
	}

	if wire.secret != nil {
		s.secret = &corev1.Secret{Data: wire.secret.GetData()}
	}

	return s, nil
}

func encodeVolumes(specs []*corev1.PersistentVolumeSpec) ([]*driverv1.PersistentVolumeSpec, error) {
	wire := make([]*driverv1.PersistentVolumeSpec, 0, len(specs))

	for _, spec := range specs {
		raw, err := encode(spec)
		if err != nil {
			return nil, err
		}

		wire = append(wire, &driverv1.PersistentVolumeSpec{Json: raw})
	}

	return wire, nil
}

func decodeVolumes(wire []*driverv1.PersistentVolumeSpec) ([]*corev1.PersistentVolumeSpec, error) {
	specs := make([]*corev1.PersistentVolumeSpec, 0, len(wire))

	for _, w := range wire {
		spec, err := decode[corev1.PersistentVolumeSpec](w.GetJson())
		if err != nil {
			return nil, err
		}

		specs = append(specs, spec)
	}

	return specs, nil
}
