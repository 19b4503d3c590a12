// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// decode reads a file of testdata.
func decode(t *testing.T, file string, into runtime.Object) {
	t.Helper()

	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	require.Empty(t, api.Decode(rawOf(t, string(text)), field.NewPath("config"), into))
}

func rawOf(t *testing.T, text string) *runtime.RawExtension {
	t.Helper()

	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	require.NoError(t, err)

	return &runtime.RawExtension{Raw: raw}
}

// TestDecode_GuidesOf2020 decodes the examples of the 2020 user guides. Each value must be in its field.
func TestDecode_GuidesOf2020(t *testing.T) {
	t.Parallel()

	infrastructure := &api.InfrastructureConfig{}
	decode(t, "infrastructureconfig.yaml", infrastructure)
	require.Equal(t, []api.SharedNetwork{{Name: "net-conf", Namespace: "default"}}, infrastructure.Networks.SharedNetworks)
	require.Len(t, infrastructure.Networks.TenantNetworks, 1)
	require.Equal(t, "network-1", infrastructure.Networks.TenantNetworks[0].Name)
	require.True(t, infrastructure.Networks.TenantNetworks[0].Default)
	require.True(t, json.Valid([]byte(infrastructure.Networks.TenantNetworks[0].Config)))

	controlPlane := &api.ControlPlaneConfig{}
	decode(t, "controlplaneconfig.yaml", controlPlane)
	require.Equal(t, map[string]bool{"CustomResourceValidation": true}, controlPlane.CloudControllerManager.FeatureGates)

	profile := &api.CloudProfileConfig{}
	decode(t, "cloudprofileconfig.yaml", profile)
	require.Equal(t, "18.04", profile.MachineImages[0].Versions[0].Version)
	require.NotEmpty(t, profile.MachineImages[0].Versions[0].SourceURL)
	require.Equal(t, "2", profile.MachineTypes[0].Limits.CPU.String())
	require.Equal(t, "8Gi", profile.MachineTypes[0].Limits.Memory.String())

	worker := &api.WorkerConfig{}
	decode(t, "workerconfig.yaml", worker)
	require.Len(t, worker.Devices.Disks, 2)
	require.NotNil(t, worker.Devices.Disks[1].Disk)
	require.NotNil(t, worker.Devices.Rng)
	require.True(t, worker.Devices.BlockMultiQueue)
	require.True(t, worker.Devices.NetworkInterfaceMultiQueue)
	require.EqualValues(t, 2, worker.CPU.Sockets)
	require.Equal(t, []kubevirtv1.CPUFeature{{Name: "pcid"}}, worker.CPU.Features, "the guide lists features by their names")
	require.Equal(t, "2Mi", worker.Memory.Hugepages.PageSize)
	require.Zero(t, worker.Memory.Guest.Cmp(resource.MustParse("1Gi")))
	require.True(t, worker.OvercommitGuestOverhead)
	require.EqualValues(t, "ClusterFirst", worker.DNSPolicy)
	require.Equal(t, []string{"8.8.8.8"}, worker.DNSConfig.Nameservers)
	require.True(t, worker.DisablePreAllocatedDataVolumes)
}

// TestDecode_StatusesOf2020 decodes what the archived extension wrote.
func TestDecode_StatusesOf2020(t *testing.T) {
	t.Parallel()

	infrastructure := &api.InfrastructureStatus{}
	worker := &api.WorkerStatus{}
	require.Empty(t, api.Decode(rawOf(t, `{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":"InfrastructureStatus",
		"networks":[{"name":"default/net-conf","sha":"abc"},{"name":"ns/shoot--a--b-network-1","default":true,"sha":"def"}]}`), nil, infrastructure))
	require.Equal(t, "abc", infrastructure.Networks[0].SHA)

	require.Empty(t, api.Decode(rawOf(t, `{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":"WorkerStatus",
		"machineImages":[{"name":"ubuntu","version":"18.04","sourceUrl":"https://images.example.com/a"}]}`), nil, worker))
	require.Equal(t, "https://images.example.com/a", worker.MachineImages[0].SourceURL)
}

func TestDecodeReportsAllErrors(t *testing.T) {
	t.Parallel()

	errs := api.Decode(rawOf(t, `{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha2","kind":"Worker","dnsPolice":"None",
		"cpu":{"cores":"four"},"virtualMachineTemplate":{"spec":{"template":{"spec":{"hostname":1}}}}}`), field.NewPath("config"), &api.WorkerConfig{})

	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}

	require.ElementsMatch(t, []string{
		"config.dnsPolice", "config.cpu.cores", "config.virtualMachineTemplate.spec.template.spec.hostname", "config.apiVersion", "config.kind",
	}, fields)

	require.Empty(t, api.Decode(nil, nil, &api.WorkerConfig{}), "a providerConfig is optional")
	require.Len(t, api.Decode(&runtime.RawExtension{Raw: []byte(`[]`)}, field.NewPath("config"), &api.WorkerConfig{}), 1)
}

// TestDecode_KeepsExplicitZeros decodes and writes a template: false is not the same as unset.
func TestDecode_KeepsExplicitZeros(t *testing.T) {
	t.Parallel()

	const template = `{"spec":{"template":{"spec":{"domain":{"devices":{"autoattachMemBalloon":false}}}}}}`

	config := &api.WorkerConfig{}
	require.Empty(t, api.Decode(rawOf(t, `{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":"WorkerConfig","virtualMachineTemplate":`+template+`}`), nil, config))

	raw, err := json.Marshal(config.DeepCopy().VirtualMachineTemplate)
	require.NoError(t, err)
	require.JSONEq(t, template, string(raw))
}
