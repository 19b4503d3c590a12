// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

func TestInTermsOfProviderSpec(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{
		"tags": {"mcm.gardener.cloud/cluster": "c"},
		"cpu": {"cores": 2, "features": [{"name": "a"}, {"name": "b"}]},
		"rootVolume": {"source": {"http": {"url": "https://x"}}},
		"additionalVolumes": [
			{"name": "shared", "volumeSource": {"persistentVolumeClaim": {"claimName": "shared"}}},
			{"name": "data", "dataVolume": {"source": {"blank": {}}}}
		],
		"devices": {"disks": [{"name": "data"}, {"name": "root-disk"}]},
		"networks": [{"name": "storage"}, {"name": "tenant", "default": true}, {"name": "other"}],
		"sshKeys": ["ssh-ed25519 x"],
		"virtualMachineTemplate": {"spec": {"template": {"spec": {"domain": {"cpu": {"model": "x", "features": [{"name": "c"}, {"name": "b"}]}, "rebootPolicy": "Terminate"}, "evictionStrategy": "x"}}}}
	}`))
	vm := virtualMachine(t, in)

	for path, want := range map[string]string{
		"spec.template.spec.domain.cpu.cores":                              "providerSpec.cpu.cores",
		"spec.template.spec.domain.cpu.model":                              "providerSpec.virtualMachineTemplate.spec.template.spec.domain.cpu.model",
		"spec.template.spec.domain.memory.guest":                           "providerSpec.memory.guest",
		"spec.template.spec.domain.resources.requests.memory":              "providerSpec.resources.requests.memory",
		"spec.template.spec.domain.devices.disks[0].disk.bus":              "providerSpec.devices.disks[1].disk.bus",
		"spec.template.spec.domain.devices.disks[1]":                       "providerSpec.additionalVolumes[0].volumeSource",
		"spec.template.spec.domain.devices.disks[2].serial":                "providerSpec.devices.disks[0].serial",
		"spec.template.spec.domain.devices.disks[3].name":                  "providerSpec.cloudInit",
		"spec.template.spec.domain.devices.interfaces[0].model":            "providerSpec.networks[1].model",
		"spec.template.spec.domain.devices.interfaces[1].name":             "providerSpec.networks[0].name",
		"spec.template.spec.networks[2].multus":                            "providerSpec.networks[2].multus",
		"spec.template.spec.volumes[1].persistentVolumeClaim.claimName":    "providerSpec.additionalVolumes[0].volumeSource.persistentVolumeClaim.claimName",
		"spec.template.spec.volumes[2].dataVolume":                         "providerSpec.additionalVolumes[1]",
		"spec.template.spec.volumes[0]":                                    "providerSpec.rootVolume",
		"spec.dataVolumeTemplates[0].spec.source.http.checksum":            "providerSpec.rootVolume.source.http.checksum",
		"spec.dataVolumeTemplates[1].spec.storage":                         "providerSpec.additionalVolumes[1].dataVolume.storage",
		"spec.dataVolumeTemplates[1].metadata.annotations":                 "providerSpec.additionalVolumes[1].dataVolume.annotations",
		"spec.template.spec.accessCredentials[0].sshPublicKey":             "providerSpec.sshKeys",
		"spec.template.spec.dnsConfig.nameservers":                         "providerSpec.dnsConfig.nameservers",
		"spec.template.spec.evictionStrategy":                              "providerSpec.virtualMachineTemplate.spec.template.spec.evictionStrategy",
		"spec.template.spec.domain.devices.networkInterfaceMultiqueue":     "providerSpec.devices.networkInterfaceMultiQueue",
		"spec.template.spec.domain.cpu.features[0].name":                   "providerSpec.cpu.features[0].name",
		"spec.template.spec.domain.cpu.features[1].name":                   "providerSpec.virtualMachineTemplate.spec.template.spec.domain.cpu.features[1].name",
		"spec.template.spec.domain.cpu.features[2].name":                   "providerSpec.virtualMachineTemplate.spec.template.spec.domain.cpu.features[0].name",
		"spec.template.spec.architecture":                                  "nodeTemplate.architecture",
		"spec.template.spec.volumes[99]":                                   "providerSpec.additionalVolumes",
		`unknown field "spec.template.spec.domain.rebootPolicy", and more`: `unknown field "providerSpec.virtualMachineTemplate.spec.template.spec.domain.rebootPolicy", and more`,
		// Fields without an origin in the spec stay.
		"metadata.labels": "metadata.labels",
		"spec.template.spec.domain.devices.disks[99999999999999999999].bus": "spec.template.spec.domain.devices.disks[99999999999999999999].bus",
		"nothing to translate: inspect the aspect":                          "nothing to translate: inspect the aspect",
		"see https://spec.example.com/x and metadata.google.internal":       "see https://spec.example.com/x and metadata.google.internal",
		"pod.spec.volumes[0] of the pod":                                    "pod.spec.volumes[0] of the pod",
	} {
		require.Equal(t, want, render.InTermsOfProviderSpec(path, in, vm))
	}
}
