// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

func TestOffers(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		offered  []api.OfferedNetwork
		network  api.SharedNetwork
		machines string
		want     bool
	}{
		"no list":                                  {network: api.SharedNetwork{Namespace: "a", Name: "b"}, want: true},
		"empty list":                               {offered: []api.OfferedNetwork{}, network: api.SharedNetwork{Namespace: "a", Name: "b"}},
		"network":                                  {offered: []api.OfferedNetwork{{Namespace: "a", Name: "b"}}, network: api.SharedNetwork{Namespace: "a", Name: "b"}, want: true},
		"other network of the namespace":           {offered: []api.OfferedNetwork{{Namespace: "a", Name: "c"}}, network: api.SharedNetwork{Namespace: "a", Name: "b"}},
		"namespace of the machines":                {offered: []api.OfferedNetwork{{Name: "b"}}, network: api.SharedNetwork{Name: "b"}, machines: "m", want: true},
		"namespace of the machines, by its name":   {offered: []api.OfferedNetwork{{Name: "b"}}, network: api.SharedNetwork{Namespace: "m", Name: "b"}, machines: "m", want: true},
		"other namespace":                          {offered: []api.OfferedNetwork{{Name: "b"}}, network: api.SharedNetwork{Namespace: "a", Name: "b"}, machines: "m"},
		"not known, by its name":                   {offered: []api.OfferedNetwork{{Name: "b"}}, network: api.SharedNetwork{Namespace: "a", Name: "b"}, want: true},
		"not known, in the Shoot":                  {offered: []api.OfferedNetwork{{Namespace: "a"}}, network: api.SharedNetwork{Name: "b"}, want: true},
		"not known, offered nowhere":               {offered: []api.OfferedNetwork{{Namespace: "a", Name: "c"}}, network: api.SharedNetwork{Name: "b"}},
		"not known, but offered in no namespace":   {offered: []api.OfferedNetwork{{Namespace: "c"}}, network: api.SharedNetwork{Namespace: "a", Name: "b"}},
		"all networks in the machines' namespace":  {offered: []api.OfferedNetwork{{Namespace: "m"}}, network: api.SharedNetwork{Name: "b"}, machines: "m", want: true},
		"none of the networks of the other spaces": {offered: []api.OfferedNetwork{{Namespace: "m"}}, network: api.SharedNetwork{Namespace: "n", Name: "b"}, machines: "m"},
	} {
		require.Equal(t, tc.want, validation.Offers(tc.offered, tc.network, tc.machines), name)
	}
}

func TestValidateSharedNetworks_NotOffered(t *testing.T) {
	t.Parallel()

	networks := []api.SharedNetwork{{Namespace: "a", Name: "b"}, {Namespace: "c", Name: "d"}}

	errs := validation.ValidateSharedNetworks(networks, []api.OfferedNetwork{{Namespace: "a"}}, field.NewPath("networks"))
	require.Len(t, errs, 1)
	require.Equal(t, "networks[1]", errs[0].Field)
	require.ErrorContains(t, errs[0], "the CloudProfile does not offer the network c/d; use a network of its providerConfig.sharedNetworks")
	require.Empty(t, validation.ValidateSharedNetworks(networks, nil, nil))
}

func TestValidateOfferedNetworks(t *testing.T) {
	t.Parallel()

	errs := validation.ValidateOfferedNetworks([]api.OfferedNetwork{{}, {Namespace: "A", Name: "b_c"}, {Name: "a.b"}}, field.NewPath("sharedNetworks"))
	require.Len(t, errs, 3)
	require.Equal(t, "sharedNetworks[0]", errs[0].Field)
	require.Equal(t, "sharedNetworks[1].namespace", errs[1].Field)
	require.Equal(t, "sharedNetworks[1].name", errs[2].Field)
	require.Len(t, validation.ValidateOfferedNetworks(make([]api.OfferedNetwork, 1001), field.NewPath("sharedNetworks")), 1)
}
