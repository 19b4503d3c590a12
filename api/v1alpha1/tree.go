// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDepth is the maximum nesting of a spec. KubeVirt's types need about fifteen levels.
const maxDepth = 64

// tree reads JSON into maps, slices, strings, numbers and booleans, and reports duplicate keys of
// objects. It keeps the first value of such a key; encoding/json would silently keep the last.
func tree(raw []byte, root *field.Path) (any, field.ErrorList, error) {
	r := &treeReader{decoder: json.NewDecoder(bytes.NewReader(raw))}
	r.decoder.UseNumber()

	value, err := r.value(root, 0)
	if err != nil {
		return nil, nil, err
	}

	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is data after the end of the object")
	}

	return value, r.duplicates, nil
}

type treeReader struct {
	decoder    *json.Decoder
	duplicates field.ErrorList
}

func (r *treeReader) value(path *field.Path, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}

	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}

	switch token {
	case json.Delim('{'):
		return r.object(path, depth+1)
	case json.Delim('['):
		return r.list(path, depth+1)
	default:
		return token, nil
	}
}

func (r *treeReader) object(path *field.Path, depth int) (any, error) {
	object := map[string]any{}

	for r.decoder.More() {
		token, err := r.decoder.Token()
		if err != nil {
			return nil, err
		}

		key, _ := token.(string) // The decoder accepts no other keys.
		child := path.Child(key)

		value, err := r.value(child, depth)
		if err != nil {
			return nil, err
		}

		if _, twice := object[key]; twice && len(r.duplicates) >= MaxErrors {
			continue
		} else if twice {
			r.duplicates = append(r.duplicates, field.Forbidden(child, "the field is given twice; remove one"))
		} else {
			object[key] = value
		}
	}

	_, err := r.decoder.Token() // the closing brace

	return object, err
}

func (r *treeReader) list(path *field.Path, depth int) (any, error) {
	list := []any{}

	for r.decoder.More() {
		value, err := r.value(path.Index(len(list)), depth)
		if err != nil {
			return nil, err
		}

		list = append(list, value)
	}

	_, err := r.decoder.Token() // the closing bracket

	return list, err
}
