// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
)

// TestForceDelete deletes a shoot whose provider cluster accepts connections and never responds. The
// owner sees the error soon; the namespace in the seed is deleted; the machine stays, since it cannot
// be reached.
func TestForceDelete(t *testing.T) {
	t.Parallel()

	shoot := newShoot(t, named("forced"))
	pool(shoot, 0).Minimum, pool(shoot, 0).Zones = 1, pool(shoot, 0).Zones[:1]

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)

	before := machines(t, shoot)

	require.NoError(t, shoot.SetCredentials(t.Context(), []byte(silentServer(t))))
	require.NoError(t, shoot.Sync(t.Context()))
	require.NoError(t, shoot.Infrastructure().Deploy(t.Context()))
	requireError(t, shoot, &extensionsv1alpha1.Infrastructure{}, refusal{
		field:  "provider cluster: ",
		remedy: "no response in time",
		code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
	})

	require.NoError(t, shoot.ForceDelete(t.Context()))
	require.Equal(t, before, machines(t, shoot))

	require.NoError(t, theSeed.Provider.Delete(t.Context(), onlyMachine(t, shoot)))
}

// silentServer returns a kubeconfig of a server that accepts connections and never responds.
func silentServer(t *testing.T) string {
	t.Helper()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })

	return `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "forced"}}],
		"clusters": [{"name": "a", "cluster": {"server": "https://` + listener.Addr().String() + `"}}], "users": [{"name": "a", "user": {"token": "a"}}]}`
}
