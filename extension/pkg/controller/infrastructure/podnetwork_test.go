// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// offerBinding makes a binding the default of the CloudProfile.
func (l *landscape) offerBinding(binding string) {
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "CloudProfileConfig", "machineImages": [], "podNetwork": {"binding": "` + binding + `"}}`)}
}

// TestPodNetwork_Default gives the default of the CloudProfile to new shoots, which keep it.
func TestPodNetwork_Default(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config())
	l.offerBinding("masquerade")
	require.Equal(t, &api.PodNetwork{Binding: "masquerade"}, l.reconcile(t).PodNetwork)

	l.offerBinding("l2bridge")
	require.Equal(t, &api.PodNetwork{Binding: "masquerade"}, l.reconcile(t).PodNetwork, "another binding would replace all machines")
}

// TestPodNetwork_ExistingShoot keeps the bridge of a shoot that was reconciled before the CloudProfile had a default.
func TestPodNetwork_ExistingShoot(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config())
	require.Nil(t, l.reconcile(t).PodNetwork)

	l.offerBinding("masquerade")
	require.Nil(t, l.reconcile(t).PodNetwork)

	moved := newLandscape(t, config())
	moved.offerBinding("masquerade")
	require.NoError(t, moved.actuator.Restore(t.Context(), logr.Discard(), moved.infra, moved.cluster))
	require.Nil(t, moved.reconcile(t).PodNetwork, "another seed created its machines")
}

// TestCheckBinding reads the bindings of KubeVirt's configuration.
func TestCheckBinding(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		binding, inUse, version string
		gates                   []string
		machines                bool
		noBridges               bool
		remedy                  string
	}{
		"bridge":               {binding: "bridge", version: "v1.6.0"},
		"bridge not permitted": {binding: "bridge", version: "v1.6.0", noBridges: true, remedy: "set permitBridgeInterfaceOnPodNetwork"},
		"bridge in use":        {binding: "bridge", version: "v1.6.0", noBridges: true, machines: true},
		"passt unknown":        {binding: "passt", version: "v1.7.0", gates: []string{"PasstBinding"}, remedy: "it needs v1.9"},
		"masquerade":           {binding: "masquerade", version: "v1.6.0"},
		"passt by default":     {binding: "passt", version: "v1.9.0"},
		"passt with gate":      {binding: "passt", version: "v1.8.4", gates: []string{"PasstBinding"}},
		"passt without gate":   {binding: "passt", version: "v1.8.4", remedy: "enable the gate"},
		"passt in use":         {binding: "passt", version: "v1.8.4", inUse: "passt", machines: true},
		"passt instead":        {binding: "passt", version: "v1.8.4", inUse: "registered", machines: true, remedy: "enable the gate"},
		"registered plugin":    {binding: "registered", version: "v1.9.0"},
		"plugin that is not":   {binding: "unknown", version: "v1.9.0", remedy: "register it in spec.configuration.network.binding"},
		"KubeVirt not visible": {binding: "unknown"},
	} {
		state := healthy()
		if tc.version != "" {
			state.objects = append(state.objects, &kubevirtv1.KubeVirt{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"},
				Spec: kubevirtv1.KubeVirtSpec{Configuration: kubevirtv1.KubeVirtConfiguration{
					DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{FeatureGates: tc.gates},
					NetworkConfiguration: &kubevirtv1.NetworkConfiguration{
						PermitBridgeInterfaceOnPodNetwork: ptr.To(!tc.noBridges),
						Binding:                           map[string]kubevirtv1.InterfaceBindingPlugin{"registered": {}},
					},
				}},
				Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.version},
			})
		}

		f := &flow{provider: state.cluster(), status: api.InfrastructureStatus{PodNetwork: &api.PodNetwork{Binding: tc.inUse}}}
		f.config.Networks.Pod = &api.PodNetwork{Binding: tc.binding}

		faults := f.checkBinding(t.Context(), &running{hasClasses: tc.machines})
		if tc.remedy == "" {
			require.Empty(t, faults, name)

			continue
		}

		require.Len(t, faults, 1, name)
		require.Equal(t, "spec.provider.infrastructureConfig.networks.pod.binding", faults[0].path.String(), name)
		require.Contains(t, faults[0].detail, tc.remedy, name)
	}
}
