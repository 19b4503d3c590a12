// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// TestAllowedAnnotations never returns more than the CloudProfile allows, which ValidateLoadBalancer reports.
func TestAllowedAnnotations(t *testing.T) {
	t.Parallel()

	offered := &api.OfferedLoadBalancer{AllowedAnnotations: []string{"metallb.io/*", "example.com/a"}}

	for name, tc := range map[string]struct {
		config  *api.LoadBalancerConfig
		offered *api.OfferedLoadBalancer
		want    []string
		refused int
	}{
		"default":                {nil, offered, offered.AllowedAnnotations, 0},
		"default of the section": {&api.LoadBalancerConfig{}, offered, offered.AllowedAnnotations, 0},
		"none":                   {&api.LoadBalancerConfig{AllowedAnnotations: []string{}}, offered, nil, 0},
		"fewer":                  {&api.LoadBalancerConfig{AllowedAnnotations: []string{"metallb.io/b"}}, offered, []string{"metallb.io/b"}, 0},
		"more":                   {&api.LoadBalancerConfig{AllowedAnnotations: []string{"example.com/*", "example.com/a"}}, offered, []string{"example.com/a"}, 1},
		"nothing offered":        {&api.LoadBalancerConfig{AllowedAnnotations: []string{"example.com/a"}}, nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, AllowedAnnotations(tc.config, tc.offered))
			require.Len(t, ValidateLoadBalancer(tc.config, tc.offered, field.NewPath("loadBalancer")), tc.refused)
		})
	}
}

// TestValidateOfferedLoadBalancer names the fields.
func TestValidateOfferedLoadBalancer(t *testing.T) {
	t.Parallel()

	path := field.NewPath("loadBalancer")
	require.Empty(t, ValidateOfferedLoadBalancer(nil, path))
	require.Empty(t, ValidateOfferedLoadBalancer(&api.OfferedLoadBalancer{AllowedAnnotations: []string{"metallb.io/*"}, Class: "example.com/lb"}, path))

	errs := ValidateOfferedLoadBalancer(&api.OfferedLoadBalancer{AllowedAnnotations: []string{"*"}, Class: "a b"}, path)
	require.Len(t, errs, 2)
	require.Equal(t, "loadBalancer.allowedAnnotations[0]", errs[0].Field)
	require.Equal(t, "loadBalancer.class", errs[1].Field)
}
