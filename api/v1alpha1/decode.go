package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Decode reads a ProviderSpec from JSON, strictly: an unknown, misspelt or duplicate field is an error, and all of them are
// named at once. It does not judge the values, see package validation.
func Decode(raw []byte) (*ProviderSpec, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, errors.New("providerSpec: Required value: describe the machine: region, zone, tags, memory and rootVolume")
	}

	if err := refuseHugeExponents(raw); err != nil {
		return nil, fmt.Errorf("providerSpec: %w", err)
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

// hugeExponent matches what a quantity may not be: parsing it would take hours, see resource.ParseQuantity.
var hugeExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{4,}`)

// refuseHugeExponents returns an error that names every value with an exponent that no quantity has. Tags are no quantities.
func refuseHugeExponents(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()

	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil //nolint:nilerr // The strict decoder says it better.
	}

	delete(fields, "tags")

	return findHugeExponents(nil, fields)
}

func findHugeExponents(path *field.Path, value any) error {
	var errs []error

	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			errs = append(errs, findHugeExponents(path.Child(key), child))
		}
	case []any:
		for i, child := range value {
			errs = append(errs, findHugeExponents(path.Index(i), child))
		}
	case string:
		if hugeExponent.MatchString(value) {
			errs = append(errs, field.Forbidden(path, "write the quantity with an exponent of at most three digits, or a suffix"))
		}
	case json.Number:
		return findHugeExponents(path, value.String())
	}

	return errors.Join(errs...)
}
