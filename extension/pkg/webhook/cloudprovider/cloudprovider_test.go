// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

const rawKubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "given"}}],
	"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com"}}], "users": [{"name": "a", "user": {"token": "secret"}}]}`

// mutated returns the kubeconfig after the webhook saw it twice.
func mutated(t *testing.T, raw, infrastructureConfig string) []byte {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--garden--own"}}
	if infrastructureConfig != "" {
		shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig", ` + infrastructureConfig + `}`)}
	}

	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: shoot})
	secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(raw)}}

	require.NoError(t, (&ensurer{identities: &kubevirt.IdentityOptions{}}).EnsureCloudProviderSecret(t.Context(), gctx, secret, nil))

	once := secret.Data["kubeconfig"]

	require.NoError(t, (&ensurer{identities: &kubevirt.IdentityOptions{}}).EnsureCloudProviderSecret(t.Context(), gctx, secret, nil))
	require.Equal(t, string(once), string(secret.Data["kubeconfig"]), "written twice")

	return once
}

// lagging is a context whose cache has the Cluster after some reads.
type lagging struct {
	reads int
	err   error
}

// GetCluster implements gcontext.GardenContext.
func (l *lagging) GetCluster(context.Context) (*extensionscontroller.Cluster, error) {
	if l.reads--; l.reads >= 0 {
		return nil, fmt.Errorf("could not get cluster: %w", l.err)
	}

	return &extensionscontroller.Cluster{Shoot: &gardencorev1beta1.Shoot{}}, nil
}

// TestEnsureCloudProviderSecret_AwaitsCluster retries while the Cluster is not in the cache yet.
func TestEnsureCloudProviderSecret_AwaitsCluster(t *testing.T) {
	t.Parallel()

	absent := apierrors.NewNotFound(extensionsv1alpha1.Resource("clusters"), "shoot")

	for name, tc := range map[string]struct {
		reason string
		cache  lagging
		want   error
	}{
		"Late":      {reason: "it has it soon", cache: lagging{reads: 3, err: absent}},
		"Absent":    {reason: "it never has it", cache: lagging{reads: math.MaxInt, err: absent}, want: absent},
		"Forbidden": {reason: "waiting does not help", cache: lagging{reads: 1, err: errForbidden}, want: errForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				require.ErrorIs(t, (&ensurer{identities: &kubevirt.IdentityOptions{}}).EnsureCloudProviderSecret(t.Context(), &tc.cache, &corev1.Secret{}, nil), tc.want, tc.reason)
			})
		})
	}
}

var errForbidden = errors.New("forbidden")

// TestEnsureCloudProviderSecret_NamespacePerShoot writes only the namespace, and only for a shoot that
// has its own.
func TestEnsureCloudProviderSecret_NamespacePerShoot(t *testing.T) {
	t.Parallel()

	config, namespace, err := kubeconfig.RESTConfig(mutated(t, rawKubeconfig, `"namespace": {"create": true}`))
	require.NoError(t, err)
	require.Equal(t, "shoot--garden--own", namespace)
	require.Equal(t, "https://provider.example.com", config.Host)
	require.Equal(t, "secret", config.BearerToken)
}

// TestEnsureCloudProviderSecret_Unchanged does not change the kubeconfigs of shoots without a
// namespace of their own, or kubeconfigs that cannot be used.
func TestEnsureCloudProviderSecret_Unchanged(t *testing.T) {
	t.Parallel()

	for _, infrastructureConfig := range []string{"", `"networks": {}`, `"namespace": {"create": false}`} {
		require.JSONEq(t, rawKubeconfig, string(mutated(t, rawKubeconfig, infrastructureConfig)))
	}

	require.Equal(t, "broken", string(mutated(t, "broken", `"namespace": {"create": true}`)))
}
