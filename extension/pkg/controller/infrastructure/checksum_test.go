// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

func shares(namespace, name string) *api.InfrastructureConfig {
	return &api.InfrastructureConfig{Networks: api.NetworksConfig{SharedNetworks: []api.SharedNetwork{{Name: name, Namespace: namespace}}}}
}

// TestChecksum_SameContent keeps the checksum of a network whose text changed, but not its content, and those that
// older versions wrote: a new checksum replaces all machines.
func TestChecksum_SameContent(t *testing.T) {
	t.Parallel()

	indented := strings.ReplaceAll(bridge, ",", ",\n\t")
	reordered := `{"ipam": {"subnet": "10.100.0.0/16", "type": "host-local"}, "type": "bridge"}`

	for name, text := range map[string]string{"as it was": bridge, "indented": indented, "other order": reordered} {
		both := shares("storage", "san")
		both.Networks.TenantNetworks = []api.TenantNetwork{tenant("a")}
		san := network("storage", "san", bridge, nil)
		l := newLandscape(t, both, san)
		before := l.reconcile(t).Networks
		require.Equal(t, checksum(bridge), before[0].SHA, "as older versions wrote it")

		both.Networks.TenantNetworks[0].Config = text
		l.configure(t, both)
		setConfig(san, text)
		require.NoError(t, l.provider.Update(t.Context(), san))
		require.Equal(t, before, l.reconcile(t).Networks, name)

		// The control plane moves to another seed, which has only the state.
		l.infra.Status.ProviderStatus = nil
		require.NoError(t, l.actuator.seed.Status().Update(t.Context(), l.infra))
		require.NoError(t, l.actuator.Restore(t.Context(), logr.Discard(), l.infra, l.cluster))
		require.Equal(t, before, l.reconcile(t).Networks, name)

		both.Networks.TenantNetworks[0].Config = strings.Replace(text, "10.100.0.0/16", "10.101.0.0/16", 1)
		l.configure(t, both)
		require.NotEqual(t, before[0].SHA, l.reconcile(t).Networks[0].SHA, name)
	}
}

// TestChecksum_FromOlderVersion keeps a checksum that was written before the state existed.
func TestChecksum_FromOlderVersion(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")))
	before := l.reconcile(t).Networks
	l.infra.Status.State = nil
	require.NoError(t, l.actuator.seed.Status().Update(t.Context(), l.infra))
	require.Equal(t, before, l.reconcile(t).Networks)
	require.NotNil(t, l.infra.Status.State)
}
