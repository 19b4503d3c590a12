// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Decode reads a ProviderSpec from JSON, like DecodeStrict. The spec contains all fields without an
// error, so that package validation can validate them at the same time; without errors, the spec is
// complete. It is nil if there is no object to read.
func Decode(raw []byte, root *field.Path) (*ProviderSpec, field.ErrorList) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, field.ErrorList{field.Required(root, "describe the machine: region, zone, tags, memory and rootVolume")}
	}

	spec := &ProviderSpec{}

	decoded, errs := decodeStrict(raw, root, spec)
	if !decoded {
		return nil, errs
	}

	return spec, errs
}

// DecodeStrict reads JSON into a pointer to a struct. Unknown and duplicate fields and values of a
// wrong type are errors, which are returned all at once, with their paths below root. All other
// fields are decoded, unless there is an error of root itself.
func DecodeStrict(raw []byte, root *field.Path, into any) field.ErrorList {
	_, errs := decodeStrict(raw, root, into)

	return errs
}

// decodeStrict also reports whether there was an object to decode.
func decodeStrict(raw []byte, root *field.Path, into any) (bool, field.ErrorList) {
	value, errs, err := tree(raw, root)
	if err != nil {
		return false, field.ErrorList{field.TypeInvalid(root, field.OmitValueType{}, "must be JSON: "+err.Error())}
	}

	p := &pruner{errs: errs}

	pruned := p.prune(root, value, reflect.TypeOf(into))
	if pruned == nil {
		return false, p.errs
	}

	rest, err := json.Marshal(pruned)
	if err == nil {
		var strictErrs []error

		strictErrs, err = kjson.UnmarshalStrict(rest, into)
		err = errors.Join(append(strictErrs, err)...)
	}

	if err != nil { // This is a bug: pruned JSON can be decoded.
		p.errs = append(p.errs, field.InternalError(root, err))
	}

	return true, p.errs
}

// DecodeTags reads only the tags of a ProviderSpec. It is lenient, since deleting and listing
// machines must not depend on the validity of other fields. It omits values that are not strings.
func DecodeTags(raw []byte) map[string]string {
	var lenient struct {
		Tags map[string]any `json:"tags"`
	}

	// The caller treats missing tags as an error.
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
