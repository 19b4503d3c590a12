// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"strings"
	"testing"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestConfigValidator_Validate(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		spec   extensionsv1alpha1.BastionSpec
		want   string
	}{
		"Valid":        {"what gardenctl writes", extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress(client1, "2001:db8::7/128", "0.0.0.0/0")}, ""},
		"No user data": {"nobody could log in", extensionsv1alpha1.BastionSpec{Ingress: ingress(client1)}, "spec.userData: Required value"},
		"Large user data": {
			"it fits into no Secret", extensionsv1alpha1.BastionSpec{UserData: []byte(strings.Repeat(userData, 1000)), Ingress: ingress(client1)}, "spec.userData: Too long: may not be more than 16384 bytes",
		},
		"No ingress":   {"a NetworkPolicy without ranges admits everybody", extensionsv1alpha1.BastionSpec{UserData: []byte(userData)}, "spec.ingress: Required value"},
		"Many ranges":  {"the policy is written into the provider cluster", extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress(strings.Split(strings.Repeat(client1+" ", 51), " ")...)}, "spec.ingress: Too many"},
		"No range":     {"it is an address", extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress(client1, "192.0.2.7")}, `spec.ingress[1].ipBlock.cidr: Invalid value: "192.0.2.7": must be a CIDR`},
		"Host bits":    {"it would admit 16 million clients", extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress("192.0.2.7/8")}, "set 192.0.2.7/32 for one client, or 192.0.0.0/8 for all clients of the range"},
		"Unusual form": {"API servers refuse it", extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress("::ffff:192.0.2.7/128")}, "must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := configValidator{}.Validate(t.Context(), &extensionsv1alpha1.Bastion{Spec: tc.spec}, nil).ToAggregate()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorContains(t, err, tc.want, tc.reason)
			require.NotContains(t, err.Error(), "key of a user")
		})
	}
}

func TestRangesOf(t *testing.T) {
	t.Parallel()

	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol

	for name, tc := range map[string]struct {
		reason   string
		families []corev1.IPFamily
		clients  []string
		want     []string
	}{
		"New Service": {"no family is open", nil, []string{client1}, []string{client1, "::1/128"}},
		"IPv4":        {"other families are refused", []corev1.IPFamily{v4}, []string{"2001:db8::/64", client1}, []string{client1}},
		"No client":   {"it would be open", []corev1.IPFamily{v6}, []string{client1}, []string{"::1/128"}},
		"Both":        {"each has its clients", []corev1.IPFamily{v6, v4}, []string{client1, "2001:db8::/64"}, []string{"2001:db8::/64", client1}},
	} {
		b := &extensionsv1alpha1.Bastion{Spec: extensionsv1alpha1.BastionSpec{Ingress: ingress(tc.clients...)}}
		require.Equal(t, tc.want, rangesOf(b, tc.families), "%s: %s", name, tc.reason)
	}
}
