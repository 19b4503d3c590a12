// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTree(t *testing.T) {
	t.Parallel()

	value, duplicates, err := tree([]byte(`{"a":[1,{"b":null}],"a":2}`), field.NewPath("spec"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": []any{json.Number("1"), map[string]any{"b": nil}}}, value, "the first value of a key is kept")
	require.Len(t, duplicates, 1)
	require.Equal(t, "spec.a", duplicates[0].Field)

	deepest := strings.Repeat("[", maxDepth) + "1" + strings.Repeat("]", maxDepth)
	_, _, err = tree([]byte(deepest), nil)
	require.NoError(t, err)
}

func TestTree_Refused(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, text, want string
	}{
		"ErrorInList":    {"a value in a list is wrong", `[tru]`, "invalid character"},
		"ErrorInObject":  {"a value in an object is wrong", `{"a":tru}`, "invalid character"},
		"DeepInList":     {"the error is that of the innermost list", strings.Repeat("[", maxDepth+2), "nested more than 64 levels deep"},
		"UnclosedList":   {"it ends after an element", `[1`, "EOF"},
		"EmptyList":      {"it ends after its bracket", `[`, "EOF"},
		"ListInObject":   {"the inner list is not closed", `{"a":[1`, "EOF"},
		"WrongBracket":   {"an object's brace closes a list", `[1}`, "invalid character"},
		"UnclosedObject": {"it ends after a member", `{"a":1`, "EOF"},
		"NoKey":          {"a key is text", `{1:2}`, "invalid character"},
		"Behind":         {"there is one value", `[] []`, "data after the end"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			value, _, err := tree([]byte(tc.text), field.NewPath("spec"))
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Nil(t, value)
		})
	}
}
