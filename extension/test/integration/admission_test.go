// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// mistake is a mistake in a manifest, and what its author reads.
type mistake struct {
	name string
	// old and new are replaced in the manifest of the documentation; each must occur.
	old, new string
	// field is the field of the author's YAML.
	field, remedy string
}

// cloudProfileMistakes are mistakes of an operator.
func cloudProfileMistakes() []mistake {
	const images, types, classes = "spec.providerConfig.machineImages", "spec.providerConfig.machineTypes", "spec.providerConfig.volumeClasses"

	return []mistake{
		{"unknown field", "    volumeClasses:", "    storageClasses:", "spec.providerConfig.storageClasses", "look up its name in the API reference"},
		{
			"shared network without a name", "    volumeClasses:", "    sharedNetworks: [{}]\n    volumeClasses:",
			"spec.providerConfig.sharedNetworks[0]", "set the namespace, the name, or both",
		},
		{
			"all annotations of load balancers", "    volumeClasses:", "    loadBalancer: {allowedAnnotations: ['*']}\n    volumeClasses:",
			"spec.providerConfig.loadBalancer.allowedAnnotations[0]", "must be the key of an annotation, or a prefix",
		},
		{"kind", "kind: CloudProfileConfig", "kind: ProfileConfig", "spec.providerConfig.kind", "CloudProfileConfig"},
		{"version without a source", `          - version: "20.4.20210401"
            sourceURL: https://cloud-images.ubuntu.com/focal/current/focal-server-cloudimg-amd64.img
`, "", images, "add the source of version 20.4.20210401 of image ubuntu for architecture amd64"},
		{
			"no source", "            sourceURL: https://cloud-images.ubuntu.com/focal/current/focal-server-cloudimg-amd64.img\n", "",
			images + "[0].versions[1].sourceURL", "set sourceURL, source, sourceRef or containerDisk",
		},
		{
			"two sources", "            sourceURL: https://cloud-images.ubuntu.com/focal", "            containerDisk: {image: quay.io/a/b}\n            sourceURL: https://cloud-images.ubuntu.com/focal",
			images + "[0].versions[1].containerDisk", "the image already has sourceURL; remove one of them",
		},
		{
			"address that is not a URL", "sourceURL: https://cloud-images.ubuntu.com/focal", "sourceURL: cloud-images.ubuntu.com/focal",
			images + "[ubuntu].versions[20.4.20210401].sourceURL", "http",
		},
		{
			"flavors without capabilities", "            sourceURL: https://cloud-images.ubuntu.com/focal/current/focal-server-cloudimg-amd64.img",
			"            capabilityFlavors: [{sourceURL: 'https://cloud-images.ubuntu.com/focal'}]", images + "[0].versions[1].capabilityFlavors", "the CloudProfile has no spec.machineCapabilities",
		},
		{
			"version twice", `          - version: "20.4.20210401"`, "          - version: \"18.4.20210415\"\n            sourceURL: https://example.com/a.img\n          - version: \"20.4.20210401\"",
			images + "[0].versions[1]", "ubuntu 18.4.20210415 amd64",
		},
		{
			"user data format", "            sourceURL: https://cloud-images.ubuntu.com/focal", "            cloudInit: {type: Ignition}\n            sourceURL: https://cloud-images.ubuntu.com/focal",
			images + "[ubuntu].versions[20.4.20210401].cloudInit.type", "supported values",
		},
		{"unknown machine type", "      - name: standard-1\n        limits", "      - name: standard-2\n        limits", types + "[0].name", "spec.machineTypes has no machine type with this name"},
		{"limit below the request", "          memory: 8Gi", "          memory: 1Gi", types + "[0].limits.memory", "must be at least the memory of the machine type in spec.machineTypes, which is 4Gi"},
		{
			"number of GPUs", "      - name: standard-1\n        limits", "      - name: standard-1\n        gpus: [{name: a, deviceName: nvidia.com/A100}]\n        limits",
			"spec.machineTypes[0].gpu", "must be the number of gpus of this machine type in spec.providerConfig.machineTypes, which is 1",
		},
		{
			"limits of an instance type", "      - name: standard-1\n        limits", "      - name: standard-1\n        instancetype: {name: u1.medium}\n        limits",
			types + "[0].limits", "the instance type defines CPU and memory",
		},
		{"GPUs that no machine has", "      gpu: \"0\"\n      memory: 2Gi", "      gpu: \"2\"\n      memory: 2Gi", "spec.machineTypes[1].gpu", "must be the number of gpus"},
		{"limit of CPU", `          cpu: "2"`, `          cpu: 500m`, types + "[0].limits.cpu", "must be at least the cpu of the machine type in spec.machineTypes, which is 1"},
		{"kind of an instance type", "      - name: standard-1\n        limits:\n          cpu: \"2\"\n          memory: 8Gi", "      - name: standard-1\n        instancetype: {name: a, kind: Foo}", types + "[standard-1].instancetype.kind", "supported values"},
		{"machine type twice", "    volumeClasses:", "      - name: standard-1\n    volumeClasses:", types + "[1].name", "Duplicate value"},
		{"architecture", `          - version: "20.4.20210401"`, "          - version: \"20.4.20210401\"\n            architecture: sparc", images + "[0].versions[1].architecture", `supported values: "amd64", "arm64"`},
		{"name of a storage class", "      class: wait", "      class: Not_A_Name", "spec.volumeTypes[0].class", "RFC 1123"},
		{"two default classes", "    volumeClasses:", "    volumeClasses:\n      - {name: fast, exposeAs: fast, default: true}", classes + "[1].default", "set default for one class only"},
		{"class without a name for shoots", "        exposeAs: default\n", "", classes + "[0].exposeAs", "set the name of the StorageClass in the shoots"},
		{"zone of a class", "        default: true\n", "        default: true\n        zones: [europe-west9-a]\n", classes + "[0].zones[0]", "no region in spec.regions has this zone"},
	}
}

// shootMistakes are mistakes of a user.
func shootMistakes() []mistake {
	const infrastructure, worker = "spec.provider.infrastructureConfig", "spec.provider.workers[0]"

	return []mistake{
		{"unknown field of networks", "sharedNetworks:", "networks:", infrastructure + ".networks.networks", "the fields are pod, sharedNetworks, tenantNetworks"},
		{"CNI configuration", `"cniVersion": "0.4.0",`, `cniVersion: "0.4.0"`, infrastructure + ".networks.tenantNetworks[0].config", "must be a CNI configuration in JSON"},
		{
			"subnet of the nodes", "nodes: 10.100.0.0/16", "nodes: 10.200.0.0/16", "spec.networking.nodes",
			"must contain the subnet 10.100.0.0/16",
		},
		{
			"too many networks", "        sharedNetworks:\n", "        sharedNetworks:\n" + strings.Repeat("          - name: net-conf\n            namespace: default\n", 16),
			infrastructure + ".networks", "must have at most 16 tenantNetworks and sharedNetworks together",
		},
		{"allowed network", "      networks:\n", "      isolation: {enabled: true, allowedCIDRs: [10.1.0.0]}\n      networks:\n", infrastructure + ".isolation.allowedCIDRs[0]", "must be a CIDR, such as 10.1.0.0/16"},
		{"unknown field of the control plane", "cloudControllerManager:", "cloudController:", "spec.provider.controlPlaneConfig.cloudController", "the fields are apiVersion, cloudControllerManager, kind, loadBalancer"},
		{
			"annotation of load balancers", "      cloudControllerManager:\n", "      loadBalancer: {allowedAnnotations: [metallb.io/address-pool]}\n      cloudControllerManager:\n",
			"spec.provider.controlPlaneConfig.loadBalancer.allowedAnnotations[0]", "use one of its providerConfig.loadBalancer.allowedAnnotations, or ask the operator to add it",
		},
		{"unknown field of a worker", "overcommitGuestOverhead: true", "overcommit: true", worker + ".providerConfig.overcommit", "look up its name in the API reference"},
		{"memory of the guest", `guest: "1Gi"`, `guest: "16Gi"`, worker + ".providerConfig.memory.guest", "must not exceed 8Gi, the maximum of machine type standard-1"},
		{"memory without a unit", `guest: "1Gi"`, `guest: "1"`, worker + ".providerConfig.memory.guest", "write the unit"},
		{"disk of no volume", "- name: volume-1\n                disk: {}", "- name: volume-2\n                disk: {}", worker + ".providerConfig.devices.disks[1].name", "use root-disk or the name of an additional volume"},
		{"DNS", "dnsPolicy: ClusterFirst\n          dnsConfig:\n            nameservers:\n              - 8.8.8.8", "dnsPolicy: None", worker + ".providerConfig.dnsConfig.nameservers", "set at least one nameserver"},
		{"encrypted volume", "          size: 20Gi", "          size: 20Gi\n          encrypted: true", worker + ".volume.encrypted", "use another type, or remove the field"},
		{
			"hardware in the template", "overcommitGuestOverhead: true", "virtualMachineTemplate: {spec: {template: {spec: {domain: {devices: {gpus: [{name: a, deviceName: b}]}}}}}}",
			worker + ".providerConfig.virtualMachineTemplate.spec.template.spec.domain.devices.gpus", "only the operator can set it",
		},
		{
			"namespace of a shared network", "      networks:\n        sharedNetworks:\n          - name: net-conf\n            namespace: default", "      namespace: {create: true}\n      networks:\n        sharedNetworks:\n          - name: net-conf",
			infrastructure + ".networks.sharedNetworks[0].namespace", "set the namespace of the network",
		},
		{"MAC address of the default network", "            default: true\n", "            default: true\n            mac: Stable\n", infrastructure + ".networks.tenantNetworks[0].mac", "the default network cannot have a stable MAC address"},
		{
			"binding of a tenant network", "            default: true\n", "            default: true\n            binding: {}\n",
			infrastructure + ".networks.tenantNetworks[0].binding.name", "name a network binding plugin",
		},
		{
			"binding of a shared network", "            namespace: default\n", "            namespace: default\n            binding: {}\n",
			infrastructure + ".networks.sharedNetworks[0].binding.name", "name a network binding plugin",
		},
		{"pod network beside a default network", "      networks:\n", "      networks:\n        pod: {binding: passt}\n", infrastructure + ".networks.pod", "remove pod, or default"},
		{
			"range of a network", "          - name: network-1\n", "          - name: a\n            ovn: {cidr: 10.100.0.0/24}\n          - name: network-1\n",
			infrastructure + ".networks.tenantNetworks[0].ovn.cidr", "must not overlap with",
		},
		{"no zones", "        zones:\n          - europe-west1-c\n", "", worker + ".zones", "set at least one zone"},
	}
}

// TestAdmission applies wrong manifests to the garden. Each is the manifest of the documentation with one
// mistake; the refusal names the field and the remedy.
func TestAdmission(t *testing.T) { //nolint:tparallel // All mistakes have one name.
	t.Parallel()
	applyLandscape(t)

	t.Run("CloudProfile", func(t *testing.T) { requireRefusals(t, seed.ExampleCloudProfile, "kubevirt", cloudProfileMistakes()) })
	t.Run("Shoot", func(t *testing.T) { requireRefusals(t, seed.ExampleShoot, "johndoe-kubevirt", shootMistakes()) })
}

// requireRefusals applies a manifest with another name and each mistake.
func requireRefusals(t *testing.T, example, name string, mistakes []mistake) {
	t.Helper()

	content, err := theSeed.Manifest(example)
	require.NoError(t, err)

	manifest := strings.Replace(string(content), "name: "+name+"\n", "name: wrong\n", 1)

	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			require.Contains(t, manifest, m.old)

			err := theSeed.Apply(t.Context(), []byte(strings.Replace(manifest, m.old, m.new, 1)))
			require.ErrorContains(t, err, m.field)
			require.ErrorContains(t, err, m.remedy)
			t.Log(err)
		})
	}
}
