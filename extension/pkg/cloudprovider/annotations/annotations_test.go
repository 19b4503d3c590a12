// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestAllows matches keys, prefixes, and narrower patterns.
func TestAllows(t *testing.T) {
	t.Parallel()

	patterns := []string{"metallb.io/*", "example.com/a"}
	for key, want := range map[string]bool{
		"metallb.io/address-pool": true, "metallb.io/*": true, "metallb.io": false, "xmetallb.io/a": false, "example.com/a": true, "example.com/ab": false,
	} {
		require.Equal(t, want, Allows(patterns, key), key)
	}

	require.False(t, Allows(nil, "a"))
}

// TestValidate refuses what is no key or prefix, and what belongs to other programs.
func TestValidate(t *testing.T) {
	t.Parallel()

	path := field.NewPath("allowed")
	require.Empty(t, Validate([]string{"metallb.io/*", "metallb.universe.tf/address-pool", "plain"}, path))

	for _, pattern := range []string{"*", "/*", "a b", "metallb.io/a*", "*/a", Reserved + "*", Reserved + "shoot-uid", "kubectl.kubernetes.io/last-applied-configuration"} {
		errs := Validate([]string{"a", pattern}, path)
		require.NotEmpty(t, errs, pattern)
		require.Equal(t, "allowed[1]", errs[0].Field)
	}

	require.Len(t, Validate(make([]string, 101), path), 1)
}
