package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Decode reads a ProviderSpec from JSON as DecodeStrict does. What is not at fault is in the spec, so that it can be judged at the
// same time (package validation does); without any faults the spec is complete. It is nil if there is no object to read.
func Decode(raw []byte, root *field.Path) (*ProviderSpec, field.ErrorList) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, field.ErrorList{field.Required(root, "describe the machine: region, zone, tags, memory and rootVolume")}
	}

	spec := &ProviderSpec{}

	pruned, faults := decodeStrict(raw, root, spec)
	if pruned == nil {
		return nil, faults
	}

	if fields, ok := pruned.(map[string]any); ok && spec.VirtualMachineTemplate != nil {
		given, err := json.Marshal(fields["virtualMachineTemplate"])
		if err != nil {
			return nil, append(faults, field.InternalError(root.Child("virtualMachineTemplate"), err))
		}

		spec.VirtualMachineTemplate.given = given
	}

	return spec, faults
}

// DecodeStrict reads JSON into a pointer to a struct, strictly: unknown, misspelt and duplicate fields and values of a wrong type
// are faults, and all of them are named at once, with their paths under root. Everything else is decoded. A fault of root itself
// means that nothing is.
func DecodeStrict(raw []byte, root *field.Path, into any) field.ErrorList {
	_, faults := decodeStrict(raw, root, into)

	return faults
}

// decodeStrict also returns what it has decoded, as a tree; nil if that is nothing.
func decodeStrict(raw []byte, root *field.Path, into any) (any, field.ErrorList) {
	value, faults, err := tree(raw, root)
	if err != nil {
		return nil, field.ErrorList{field.TypeInvalid(root, field.OmitValueType{}, "must be JSON: "+err.Error())}
	}

	p := &pruner{faults: faults}

	pruned := p.prune(root, value, reflect.TypeOf(into))
	if pruned == nil {
		return nil, p.faults
	}

	rest, err := json.Marshal(pruned)
	if err == nil {
		var strictErrs []error

		strictErrs, err = kjson.UnmarshalStrict(rest, into)
		err = errors.Join(append(strictErrs, err)...)
	}

	if err != nil { // What was pruned decodes, or there is a mistake here.
		p.faults = append(p.faults, field.InternalError(root, err))
	}

	return pruned, p.faults
}

// DecodeTags reads the tags of a ProviderSpec and nothing else. It is lenient, since deleting and listing machines must not
// depend on the validity of the rest. What is not there, or is no string, is left out.
func DecodeTags(raw []byte) map[string]string {
	var lenient struct {
		Tags map[string]any `json:"tags"`
	}

	// A spec that is no JSON object has no tags, and the caller treats missing tags as the error they are.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &lenient); err != nil {
		return nil
	}

	tags := make(map[string]string, len(lenient.Tags))

	for key, value := range lenient.Tags {
		if text, ok := value.(string); ok {
			tags[key] = text
		}
	}

	return tags
}
