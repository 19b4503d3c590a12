// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// refusal is a mistake in a Shoot, and what its owner reads in the Shoot's status.
type refusal struct {
	name   string
	change func(*testing.T, *seed.Botanist)
	code   gardencorev1beta1.ErrorCode
	// field is the field of the Shoot's or the CloudProfile's own YAML.
	field  string
	remedy string
}

func config(t *testing.T, kind, text string) *runtime.RawExtension {
	t.Helper()

	raw, err := yaml.YAMLToJSON([]byte("apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\nkind: " + kind + "\n" + text))
	require.NoError(t, err)

	return &runtime.RawExtension{Raw: raw}
}

func infrastructureRefusals() []refusal {
	network := func(text string) func(*testing.T, *seed.Botanist) {
		return func(t *testing.T, s *seed.Botanist) {
			t.Helper()
			s.Object.Spec.Provider.InfrastructureConfig = config(t, "InfrastructureConfig", text)
		}
	}

	return []refusal{
		{
			name:   "unknown field",
			change: network("network: {}"),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.infrastructureConfig.network",
			remedy: `did you mean "networks"?`,
		},
		{
			name:   "network without JSON",
			change: network("networks: {tenantNetworks: [{name: a, config: bridge}]}"),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.infrastructureConfig.networks.tenantNetworks[0].config",
			remedy: "must be a CNI configuration in JSON",
		},
		{
			name:   "two default networks",
			change: network(`networks: {tenantNetworks: [{name: a, default: true, config: '{"type": "bridge"}'}, {name: b, default: true, config: '{"type": "bridge"}'}]}`),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.infrastructureConfig.networks.tenantNetworks[1].default",
			remedy: "set default for one network only",
		},
		{
			name:   "shared network that does not exist",
			change: network("networks: {sharedNetworks: [{name: absent, namespace: default}]}"),
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
			field:  "spec.provider.infrastructureConfig.networks.sharedNetworks[0]",
			remedy: "create it, or correct its name and namespace",
		},
		{
			name: "zone without nodes",
			change: func(t *testing.T, s *seed.Botanist) {
				t.Helper()
				pool(s, 0).Zones = []string{"europe-west1-q"}
			},
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
			field:  "spec.provider.workers[0].zones[0]",
			remedy: "use another zone, or add nodes",
		},
		{
			name: "storage class that does not exist",
			change: func(t *testing.T, s *seed.Botanist) {
				t.Helper()
				s.Profile.Spec.VolumeTypes[0].Class = "absent"
			},
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
			field:  "spec.provider.workers[0].volume.type",
			remedy: "create it, or correct the CloudProfile",
		},
		{
			name: "credentials with a program",
			change: func(t *testing.T, s *seed.Botanist) {
				t.Helper()
				require.NoError(t, s.SetCredentials(t.Context(), []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
					"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
					"users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}}]}`)))
			},
			code:   gardencorev1beta1.ErrorInfraUnauthenticated,
			field:  "spec.credentialsBindingName",
			remedy: "use a token or client-certificate-data",
		},
	}
}

func workerRefusals() []refusal {
	worker := func(text string) func(*testing.T, *seed.Botanist) {
		return func(t *testing.T, s *seed.Botanist) {
			t.Helper()
			pool(s, 0).ProviderConfig = config(t, "WorkerConfig", text)
		}
	}

	return []refusal{
		{
			name:   "misspelled field",
			change: worker("cpus: {cores: 2}"),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.workers[0].providerConfig.cpus",
			remedy: `did you mean "cpu"?`,
		},
		{
			name:   "no memory",
			change: worker("memory: {guest: 0}"),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.workers[0].providerConfig.memory.guest",
			remedy: "must be at least 1Mi; write the unit",
		},
		{
			name:   "disk without a volume",
			change: worker("devices: {disks: [{name: absent, disk: {}}]}"),
			code:   gardencorev1beta1.ErrorConfigurationProblem,
			field:  "spec.provider.workers[0].providerConfig.devices.disks[0].name",
			remedy: "use root-disk or the name of an additional volume",
		},
		{
			name: "image version that the CloudProfile's providerConfig does not have",
			change: func(t *testing.T, s *seed.Botanist) {
				t.Helper()
				pool(s, 0).Machine.Image.Version = ptr.To("22.4.0")
			},
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
			field:  "spec.provider.workers[0].machine.image",
			remedy: "use another version, or add the source to the CloudProfile",
		},
	}
}

// TestRefusals shows the owner of a Shoot what is wrong with it.
func TestRefusals(t *testing.T) { //nolint:tparallel // The steps change one shoot.
	t.Parallel()

	shoot := newShoot(t, named("refused"))
	correct := shoot.Object.DeepCopy()
	profile := shoot.Profile.DeepCopy()

	for _, r := range infrastructureRefusals() {
		t.Run(r.name, func(t *testing.T) {
			defer restore(t, shoot, correct, profile)

			r.change(t, shoot)
			require.NoError(t, shoot.Sync(t.Context()))
			require.NoError(t, shoot.Infrastructure().Deploy(t.Context()))
			requireError(t, shoot, &extensionsv1alpha1.Infrastructure{}, r)
		})
	}

	require.NoError(t, shoot.Sync(t.Context()))
	require.NoError(t, shoot.Infrastructure().Deploy(t.Context()))
	require.NoError(t, shoot.Infrastructure().Wait(t.Context()))

	for _, r := range workerRefusals() {
		t.Run(r.name, func(t *testing.T) {
			defer restore(t, shoot, correct, profile)

			r.change(t, shoot)
			require.NoError(t, shoot.Sync(t.Context()))

			w, err := shoot.Worker(t.Context())
			require.NoError(t, err)
			require.NoError(t, w.Deploy(t.Context()))
			requireError(t, shoot, &extensionsv1alpha1.Worker{}, r)
		})
	}

	require.Empty(t, machines(t, shoot))
	requireNothingLeft(t, shoot)
}

// restore makes the shoot correct again.
func restore(t *testing.T, shoot *seed.Botanist, correct *gardencorev1beta1.Shoot, profile *gardencorev1beta1.CloudProfile) {
	t.Helper()

	shoot.Object = correct.DeepCopy()
	shoot.Profile = profile.DeepCopy()
	require.NoError(t, shoot.SetCredentials(t.Context(), shoot.Kubeconfig))
}

// requireError waits until a resource of the shoot has the error.
func requireError(t *testing.T, shoot *seed.Botanist, object extensionsv1alpha1.Object, r refusal) {
	t.Helper()

	var last *gardencorev1beta1.LastError

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := theSeed.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: shoot.Object.Name}, object); err != nil {
			return false, err.Error()
		}

		if last = object.GetExtensionStatus().GetLastError(); last == nil {
			return false, "no error"
		}

		return strings.Contains(last.Description, r.field) && strings.Contains(last.Description, r.remedy), last.Description
	})

	require.NotEmpty(t, r.remedy)
	t.Log(last.Codes, last.Description)
	require.Equal(t, []gardencorev1beta1.ErrorCode{r.code}, last.Codes)
}
