// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"errors"
	"os"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
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

	require.NoError(t, Findings(t.Context(), l.provider, l.infra, l.cluster))
	require.NoError(t, Drains(t.Context(), l.provider, l.infra, l.cluster))
}

// TestDrains reports the effect of missing permissions with the pools and the remedy.
func TestDrains(t *testing.T) {
	t.Parallel()

	const pools = "Pool cpu-worker cannot live-migrate: because spec.provider.infrastructureConfig.networks connects the machine to the pod network by a bridge; set networks.pod.binding"

	state := healthy()
	state.denied["virtualmachineinstancemigrations"] = true

	l := shootWithPool(t, config())
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "` + api.SchemeGroupVersion.String() + `",
		"kind": "CloudProfileConfig", "machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "sourceURL": "https://images.example.com/ubuntu.img"}]}]}`)}
	worker := &l.cluster.Shoot.Spec.Provider.Workers[0]
	worker.Machine.Image = &gardencorev1beta1.ShootMachineImage{Name: "ubuntu", Version: ptr.To("1")}
	worker.Volume.VolumeSize = "20Gi"
	l.cluster.Shoot.Spec.Region = "europe-west1"

	err := Drains(t.Context(), state.cluster(), l.infra, l.cluster)
	require.ErrorContains(t, err, "a drain of a node of the provider cluster shuts down machines that cannot live-migrate, with their pods")
	require.ErrorContains(t, err, pools)
	require.ErrorContains(t, err, "may not list virtualmachineinstancemigrations")
	require.ErrorContains(t, err, "apply extension/kubernetes/provider-namespace")

	l.infra.Status.State = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "InfrastructureState", "evacuation": true}`)}
	err = Drains(t.Context(), state.cluster(), l.infra, l.cluster)
	require.ErrorContains(t, err, "waits for machines of the shoot that cannot live-migrate by themselves")
	require.ErrorContains(t, err, pools)
}

// TestEvacuates continues to evacuate existing machines if the account has lost the permissions, and gives new ones the
// strategy of shoots without evacuation.
func TestEvacuates(t *testing.T) {
	t.Parallel()

	machine := func(strategy kubevirtv1.EvictionStrategy) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{providerspec.TagCluster: technicalID}},
			Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				Spec: kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: ptr.To(strategy)},
			}},
		}
	}
	waiting := machine(kubevirtv1.EvictionStrategyExternal)
	foreign := waiting.DeepCopy()
	foreign.Labels[providerspec.TagShootUID] = "another"

	for name, tc := range map[string]struct {
		reason            string
		before            api.InfrastructureState
		machine           *kubevirtv1.VirtualMachine
		missing, failing  bool
		evacuates, denied bool
	}{
		"Permitted":   {reason: "the account has the permissions", evacuates: true},
		"Returned":    {reason: "it has them again", before: api.InfrastructureState{Evacuation: true, EvacuationDenied: true}, machine: waiting, evacuates: true},
		"Never":       {reason: "no machine waits for the driver", missing: true, machine: machine(kubevirtv1.EvictionStrategyLiveMigrateIfPossible)},
		"Lost":        {reason: "a machine waits for the driver", before: api.InfrastructureState{Evacuation: true}, missing: true, machine: waiting, evacuates: true, denied: true},
		"Replaced":    {reason: "no machine waits any more", before: api.InfrastructureState{Evacuation: true, EvacuationDenied: true}, missing: true, machine: machine(kubevirtv1.EvictionStrategyLiveMigrate)},
		"Foreign":     {reason: "it belongs to another landscape", before: api.InfrastructureState{Evacuation: true}, missing: true, machine: foreign},
		"Unreadable":  {reason: "nothing is known", before: api.InfrastructureState{Evacuation: true}, failing: true, evacuates: true},
		"NeverFailed": {reason: "nothing is known", failing: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			state := healthy()
			state.denied["virtualmachineinstancemigrations"] = tc.missing

			if tc.machine != nil {
				state.objects = append(state.objects, tc.machine)
			}

			l := newLandscape(t, config())
			provider := state.cluster()

			if tc.failing {
				provider = l.provider
				l.down = errors.New("unreachable")
			}

			f := newFlow(provider, l.infra, l.cluster)
			f.state = tc.before

			evacuates, denied := f.evacuates(t.Context())
			require.Equal(t, tc.evacuates, evacuates, tc.reason)
			require.Equal(t, tc.denied, denied, tc.reason)
		})
	}
}

// TestEvacuationPermissions requires each permission of the driver's evacuation.
func TestEvacuationPermissions(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../../../kubernetes/evacuation/provider-namespace/rbac.yaml")
	require.NoError(t, err)

	role := &rbacv1.Role{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		if strings.Contains(document, "kind: Role\n") {
			require.NoError(t, yaml.Unmarshal([]byte(document), role))
		}
	}

	require.NotEmpty(t, role.Rules)

	_, missing := rbacvalidation.Covers(evacuationPermissions(), role.Rules)
	require.Empty(t, missing, "in the folder, but not checked")
}
