// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// TestReconcile_Evacuation enables evacuation for an account with the permissions, in the status and, for another seed, in
// the state.
func TestReconcile_Evacuation(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config())
	require.True(t, l.reconcile(t).Evacuation)

	state := &api.InfrastructureState{}
	require.Empty(t, api.Decode(l.infra.Status.State, nil, state))
	require.True(t, state.Evacuation)

	findings, warning := Findings(t.Context(), l.provider, l.infra, l.cluster)
	require.NoError(t, findings)
	require.NoError(t, warning)
}

// TestCheckDrains reports the effect of missing permissions with the pools and the remedy.
func TestCheckDrains(t *testing.T) {
	t.Parallel()

	state := healthy()
	state.denied["virtualmachineinstancemigrations"] = true

	l := shootWithPool(t, config())
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "` + api.SchemeGroupVersion.String() + `",
		"kind": "CloudProfileConfig", "machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "sourceURL": "https://images.example.com/ubuntu.img"}]}]}`)}
	worker := &l.cluster.Shoot.Spec.Provider.Workers[0]
	worker.Machine.Image = &gardencorev1beta1.ShootMachineImage{Name: "ubuntu", Version: ptr.To("1")}
	worker.Volume.VolumeSize = "20Gi"
	l.cluster.Shoot.Spec.Region = "europe-west1"

	f := newFlow(state.cluster(), l.infra, l.cluster)
	require.False(t, f.evacuates(t.Context()))

	err := f.checkDrains(t.Context(), l.cluster)
	require.ErrorContains(t, err, "a drain of a node of the provider cluster shuts down machines that cannot live-migrate, with their pods")
	require.ErrorContains(t, err, "pool cpu-worker cannot live-migrate, because spec.provider.infrastructureConfig.networks bridges to the pod network")
	require.ErrorContains(t, err, "may not list virtualmachineinstancemigrations")
	require.ErrorContains(t, err, "apply extension/kubernetes/provider-namespace")

	l.infra.Status.State = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "InfrastructureState", "evacuation": true}`)}
	f = newFlow(state.cluster(), l.infra, l.cluster)
	require.True(t, f.evacuates(t.Context()), "machines depend on the driver")
	require.ErrorContains(t, f.checkDrains(t.Context(), l.cluster), "waits for the machines of the shoot")
}
