// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// identityOptions returns the options of a command line.
func identityOptions(t *testing.T, args ...string) *kubevirt.IdentityOptions {
	t.Helper()

	o := &kubevirt.IdentityOptions{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(t, flags.Parse(args))

	return o
}

func TestIdentityOptions_Allows(t *testing.T) {
	t.Parallel()

	o := identityOptions(t, "--workload-identity-allowed-servers=https://a.example.com:6443,https://*.clusters.example.com", "--workload-identity-allowed-servers=https://gateway.example.com/clusters/a")
	require.NoError(t, o.Complete())

	for server, allowed := range map[string]bool{
		"https://a.example.com:6443":               true,
		"https://A.example.com.:6443/":             true,
		"https://a.example.com":                    false,
		"https://a.example.com:6443/b":             false,
		"https://b.example.com:6443":               false,
		"https://a.example.com.attacker.net:6443":  false,
		"https://attacker.net:6443":                false,
		"https://x.clusters.example.com":           true,
		"https://x.y.clusters.example.com:443":     true,
		"https://clusters.example.com":             false,
		"https://.clusters.example.com":            false,
		"https://xclusters.example.com":            false,
		"https://gateway.example.com/clusters/a":   true,
		"https://gateway.example.com/clusters/b":   false,
		"https://gateway.example.com/clusters/a/b": false,
		"https://gateway.example.com/clusters%2Fa": false,
		"https://[": false,
	} {
		require.Equal(t, allowed, o.Allows(server), server)
	}

	require.True(t, identityOptions(t).Allows("https://any.example.com"))
}

func TestIdentityOptions_Complete(t *testing.T) {
	t.Parallel()

	for _, server := range []string{"provider.example.com", "http://provider.example.com", "https://*", "https://a.*.example.com", "https://provider.example.com/*", "https://a:b@provider.example.com"} {
		require.ErrorContains(t, identityOptions(t, "--workload-identity-allowed-servers="+server).Complete(), "must be an https URL", server)
	}
}
