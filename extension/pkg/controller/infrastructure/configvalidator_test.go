// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"fmt"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// validated returns the errors of the validator.
func validated(t *testing.T, l *landscape) field.ErrorList {
	t.Helper()

	scheme := runtime.NewScheme()
	require.NoError(t, extensionsv1alpha1.AddToScheme(scheme))
	require.NoError(t, gardencorev1beta1.AddToScheme(scheme))

	l.cluster.CloudProfile.TypeMeta = metav1.TypeMeta{APIVersion: gardencorev1beta1.SchemeGroupVersion.String(), Kind: "CloudProfile"}
	l.cluster.Shoot.TypeMeta = metav1.TypeMeta{APIVersion: gardencorev1beta1.SchemeGroupVersion.String(), Kind: "Shoot"}
	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&extensionsv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: technicalID},
		Spec: extensionsv1alpha1.ClusterSpec{
			CloudProfile: runtime.RawExtension{Raw: rawOf(t, l.cluster.CloudProfile)},
			Shoot:        runtime.RawExtension{Raw: rawOf(t, l.cluster.Shoot)},
		},
	}).Build()

	return (&configValidator{seed: seed}).Validate(t.Context(), l.infra)
}

func TestConfigValidator(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		config *api.InfrastructureConfig
		change func(*landscape)
		// field and text are those of the only error; empty if there is none.
		field, text string
	}{
		"Valid": {config: config(tenant("a"))},
		"CNI":   {config: config(api.TenantNetwork{Name: "a", Config: "{}"}), field: "spec.provider.infrastructureConfig.networks.tenantNetworks[0].config"},
		"NodesNetwork": {
			config: config(api.TenantNetwork{Name: "a", Config: `{"type":"bridge","ipam":{"subnet":"10.200.0.0/16"}}`, Default: true}),
			field:  "spec.networking.nodes",
			text:   "10.200.0.0/16",
		},
		"NoNodesNetwork": {
			config: config(tenant("a")),
			change: func(l *landscape) { l.cluster.Shoot.Spec.Networking.Nodes = nil },
			field:  "spec.networking.nodes",
			text:   "set the range of the pod network",
		},
		"ManyNetworks": {
			config: config(tenants(17)...),
			field:  "spec.provider.infrastructureConfig.networks",
			text:   "must have at most 16",
		},
		"ManyNetworksInUse": {
			config: config(tenants(17)...),
			change: func(l *landscape) { l.infra.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte("{}")} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := shootWithPool(t, tc.config)
			if tc.change != nil {
				tc.change(l)
			}

			errs := validated(t, l)
			if tc.field == "" {
				require.Empty(t, errs)

				return
			}

			require.Len(t, errs, 1)
			require.Equal(t, tc.field, errs[0].Field)
			require.ErrorContains(t, errs[0], tc.text)
			require.NotEqual(t, field.ErrorTypeInternal, errs[0].Type)
		})
	}
}

// tenants returns networks with different names.
func tenants(count int) []api.TenantNetwork {
	networks := make([]api.TenantNetwork, count)
	for i := range networks {
		networks[i] = tenant(fmt.Sprintf("a%d", i))
	}

	return networks
}
