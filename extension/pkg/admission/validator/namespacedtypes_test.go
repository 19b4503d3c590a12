// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const configHead = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig", "machineImages": [], "machineTypes": `

// TestNamespacedCloudProfileValidator_MachineTypes lets a project add machine types with the hardware that the
// CloudProfile offers.
func TestNamespacedCloudProfileValidator_MachineTypes(t *testing.T) {
	t.Parallel()

	machineType := func(name, gpus string) gardencorev1beta1.MachineType {
		return gardencorev1beta1.MachineType{Name: name, CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi"), GPU: resource.MustParse(gpus)}
	}

	parent := &gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt"}}
	parent.Spec.MachineTypes = []gardencorev1beta1.MachineType{machineType("gpu", "1"), machineType("u1", "0"), machineType("gpus", "2")}
	parent.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(configHead + `[{"name": "gpu", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}]},
		{"name": "gpus", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}, {"name": "b", "deviceName": "example.com/gpu"}]},
		{"name": "u1", "instancetype": {"name": "u1.large"}}]}`)}

	for name, tc := range map[string]struct {
		reason, gpus, config, want string
	}{
		"Limits":        {reason: "limits bound the project's own machines", gpus: "0", config: `[{"name": "own", "limits": {"cpu": "4"}}]`},
		"TwoGPUs":       {reason: "the CloudProfile offers the device", gpus: "2", config: `[{"name": "own", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}, {"name": "b", "deviceName": "example.com/gpu"}]}]`},
		"ThreeGPUs":     {reason: "the operator offers at most two", gpus: "3", config: `[{"name": "own", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}, {"name": "b", "deviceName": "example.com/gpu"}, {"name": "c", "deviceName": "example.com/gpu"}]}]`, want: "spec.providerConfig.machineTypes[0].gpus[2].deviceName: Forbidden: the machine types of the CloudProfile have at most 2"},
		"ClusterKind":   {reason: "it is the default", gpus: "0", config: `[{"name": "own", "instancetype": {"name": "u1.large", "kind": "VirtualMachineClusterInstancetypes"}}]`},
		"Namespaced":    {reason: "it is another object", gpus: "0", config: `[{"name": "own", "instancetype": {"name": "u1.large", "kind": "VirtualMachineInstancetype"}}]`, want: "spec.providerConfig.machineTypes[0].instancetype.name: Forbidden"},
		"Inferred":      {reason: "the project's image would choose it", gpus: "0", config: `[{"name": "own", "instancetype": {"inferFromVolume": "root-disk"}}]`, want: "spec.providerConfig.machineTypes[0].instancetype.inferFromVolume: Forbidden"},
		"Revision":      {reason: "it may be of another one", gpus: "0", config: `[{"name": "own", "instancetype": {"name": "u1.large", "revisionName": "x1.huge"}}]`, want: "spec.providerConfig.machineTypes[0].instancetype.revisionName: Forbidden"},
		"Instancetype":  {reason: "the CloudProfile offers it", gpus: "0", config: `[{"name": "own", "instancetype": {"name": "u1.large"}}]`},
		"OtherDevice":   {reason: "the operator has not offered it", gpus: "1", config: `[{"name": "own", "gpus": [{"name": "a", "deviceName": "example.com/other"}]}]`, want: "spec.providerConfig.machineTypes[0].gpus[0].deviceName: Forbidden"},
		"HostDevice":    {reason: "likewise", gpus: "0", config: `[{"name": "own", "hostDevices": [{"name": "a", "deviceName": "example.com/nic"}]}]`, want: "spec.providerConfig.machineTypes[0].hostDevices[0].deviceName: Forbidden"},
		"OtherType":     {reason: "likewise", gpus: "0", config: `[{"name": "own", "instancetype": {"name": "x1.huge"}}]`, want: "spec.providerConfig.machineTypes[0].instancetype.name: Forbidden"},
		"Preference":    {reason: "likewise", gpus: "0", config: `[{"name": "own", "preference": {"name": "windows"}}]`, want: "spec.providerConfig.machineTypes[0].preference.name: Forbidden"},
		"Claim":         {reason: "likewise", gpus: "1", config: `[{"name": "own", "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}], "gpus": [{"name": "a", "claimName": "c", "requestName": "r"}]}]`, want: "spec.providerConfig.machineTypes[0].resourceClaims[0].resourceClaimTemplateName: Forbidden"},
		"Inherited":     {reason: "it is the operator's", gpus: "0", config: `[{"name": "gpu", "limits": {"cpu": "4"}}]`, want: "spec.providerConfig.machineTypes[0].name: Forbidden: the CloudProfile kubevirt already has machine type gpu"},
		"Unknown":       {reason: "the project has no such machine type", gpus: "0", config: `[{"name": "other"}]`, want: "spec.providerConfig.machineTypes[0].name: Invalid"},
		"NumberOfGPUs":  {reason: "cluster-autoscaler would expect others", gpus: "1", config: `[{"name": "own"}]`, want: "spec.machineTypes[0].gpu: Invalid"},
		"WithoutConfig": {reason: "the machine type is complete without it", gpus: "0", config: `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			project := &gardencorev1beta1.NamespacedCloudProfile{Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
				Parent:         gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: parent.Name},
				MachineTypes:   []gardencorev1beta1.MachineType{machineType("own", tc.gpus)},
				ProviderConfig: &runtime.RawExtension{Raw: []byte(configHead + tc.config + "}")},
			}}

			err := (&namespacedCloudProfileValidator{garden: gardenWith(t, parent)}).Validate(t.Context(), project, nil)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}
