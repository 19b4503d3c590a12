// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package mutator

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	inherited = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig",
		"machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "sourceURL": "https://example.com/1"}]}], "volumeClasses": [{"name": "fast"}]}`
	own = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig",
		"machineImages": [{"name": "ubuntu", "versions": [{"version": "2", "sourceURL": "https://example.com/2"}]}, {"name": "flatcar", "versions": [{"version": "3", "sourceURL": "https://example.com/3"}]}]}`
	merged = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig",
		"machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "sourceURL": "https://example.com/1"}, {"version": "2", "sourceURL": "https://example.com/2"}]},
			{"name": "flatcar", "versions": [{"version": "3", "sourceURL": "https://example.com/3"}]}], "volumeClasses": [{"name": "fast"}]}`
)

func TestMerge(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason       string
		spec, status string
		observed     int64
		want         string
	}{
		"Added":    {"images of the project are added to those of the CloudProfile", own, inherited, 1, merged},
		"Again":    {"a second call changes nothing", own, merged, 1, merged},
		"Outdated": {"the status does not belong to this spec yet", own, inherited, 0, inherited},
		"Newer": {
			"a newer version wrote fields that this version does not know", `{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2"}]}]}`,
			`{"future": true, "machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "future": true}]}]}`, 1,
			`{"future": true, "machineImages": [{"name": "ubuntu", "versions": [{"version": "1", "future": true}, {"version": "2"}]}]}`,
		},
		"DefaultArchitecture": {
			"amd64 is the default", `{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2"}, {"version": "2", "architecture": "arm64"}]}]}`,
			`{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2", "architecture": "amd64"}]}]}`, 1,
			`{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2"}, {"version": "2", "architecture": "arm64"}]}]}`,
		},
		"Quantity": {
			"a size that takes hours to parse is not parsed", `{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2", "size": "1234567890123456789012e2000000000"}]}]}`,
			`{"machineImages": [{"name": "ubuntu", "versions": []}]}`, 1, `{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2", "size": "1234567890123456789012e2000000000"}]}]}`,
		},
		"Repeated": {
			"several entries of an image", `{"machineImages": [{"name": "ubuntu", "versions": [{"version": "2"}]}, {"name": "ubuntu", "versions": [{"version": "3"}]}]}`,
			`{"machineImages": [{"name": "ubuntu", "versions": [{"version": "1"}, {"version": "3"}]}]}`, 1,
			`{"machineImages": [{"name": "ubuntu", "versions": [{"version": "1"}, {"version": "2"}, {"version": "3"}]}]}`,
		},
		"MachineTypes": {
			"machine types of the project are added, or replace those of an earlier merge",
			`{"machineTypes": [{"name": "own", "limits": {"cpu": "4"}}]}`,
			`{"machineImages": [], "machineTypes": [{"name": "small", "future": true}, {"name": "own", "limits": {"cpu": "2"}}]}`, 1,
			`{"machineImages": [], "machineTypes": [{"name": "small", "future": true}, {"name": "own", "limits": {"cpu": "4"}}]}`,
		},
		"FirstMachineType": {"the CloudProfile has none", `{"machineTypes": [{"name": "own"}]}`, `{"machineImages": []}`, 1, `{"machineImages": [], "machineTypes": [{"name": "own"}]}`},
		"None":             {"the project adds no images", "", inherited, 1, inherited},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			profile := &gardencorev1beta1.NamespacedCloudProfile{}
			profile.Generation = 1
			profile.Status.ObservedGeneration = tc.observed
			profile.Status.CloudProfileSpec.ProviderConfig = &runtime.RawExtension{Raw: []byte(tc.status)}

			if tc.spec != "" {
				profile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(tc.spec)}
			}

			require.NoError(t, (&namespacedCloudProfile{}).Mutate(t.Context(), profile, nil))
			require.JSONEq(t, tc.want, string(profile.Status.CloudProfileSpec.ProviderConfig.Raw), tc.reason)
		})
	}
}
