package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"
)

// Decode reads a ProviderSpec from JSON, strictly: an unknown, misspelt or duplicate field is an error, and all of them are
// named at once. It does not judge the values, see package validation.
func Decode(raw []byte) (*ProviderSpec, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, errors.New("providerSpec: Required value: describe the machine: region, zone, tags, memory and rootVolume")
	}

	spec := &ProviderSpec{}

	strictErrs, err := kjson.UnmarshalStrict(raw, spec)
	if err != nil {
		return nil, fmt.Errorf("providerSpec: %w", err)
	}

	if err := errors.Join(strictErrs...); err != nil {
		return nil, fmt.Errorf("providerSpec: %w", err)
	}

	return spec, nil
}

// DecodeTags reads the tags of a ProviderSpec and nothing else. It is lenient, since deleting and listing machines must not
// depend on the validity of the rest. What is not there is empty.
func DecodeTags(raw []byte) map[string]string {
	var lenient struct {
		Tags map[string]string `json:"tags"`
	}

	// A spec that is no JSON object has no tags, and the caller treats missing tags as the error they are.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &lenient); err != nil {
		return nil
	}

	return lenient.Tags
}
