// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldsOf_ComparesEveryType visits all types of a ProviderSpec, most of which belong to other
// projects.
func TestFieldsOf_ComparesEveryType(t *testing.T) {
	t.Parallel()

	seen := map[reflect.Type]bool{}
	compare(t, reflect.TypeFor[ProviderSpec](), seen)

	const some = 150
	require.Greater(t, len(seen), some, "KubeVirt's types are among them")
}

func compare(t *testing.T, of reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()

	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}

	if of.Kind() != reflect.Struct || opaque(of) || seen[of] {
		return
	}

	seen[of] = true

	for name, fieldType := range fieldsOf(of) {
		require.NotEqual(t, reflect.Interface, fieldType.Kind(), "%s.%s could have any type", of, name)
		compare(t, fieldType, seen)
	}
}
