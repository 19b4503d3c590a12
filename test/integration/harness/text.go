// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// MarshalPatch returns the fields as a patch in JSON.
func MarshalPatch(t *testing.T, fields map[string]any) []byte {
	t.Helper()

	patch, err := json.Marshal(fields)
	require.NoError(t, err)

	return patch
}

// MustReplace replaces a substring that must exist, since a test with an ineffective
// change would prove nothing.
func MustReplace(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic("the text does not contain " + old)
	}

	return strings.ReplaceAll(text, old, with)
}

// MergeFields replaces top-level fields of a spec.
func MergeFields(t *testing.T, spec []byte, fields string) []byte {
	t.Helper()

	var under, over map[string]json.RawMessage

	require.NoError(t, json.Unmarshal(spec, &under))
	require.NoError(t, json.Unmarshal([]byte(fields), &over))

	for key, value := range over {
		under[key] = value
	}

	merged, err := json.Marshal(under)
	require.NoError(t, err)

	return merged
}

// Incompressible returns deterministic bytes that look random.
func Incompressible(size int) []byte {
	var data []byte

	sum := sha256.Sum256([]byte("user data"))
	for len(data) < size {
		data = append(data, sum[:]...)
		sum = sha256.Sum256(sum[:])
	}

	return data[:size]
}
