// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// predecessorSpec is a ProviderSpec as the predecessor's extension wrote it for a worker pool
// without any WorkerConfig.
const predecessorSpec = `
region: europe-west1
zone: europe-west1-c
tags:
  mcm.gardener.cloud/cluster: shoot--p--s
  mcm.gardener.cloud/role: node
  mcm.gardener.cloud/machineclass: shoot--p--s-cpu-worker-z1-5f4d8
resources: {requests: {cpu: "1", memory: 4Gi}}
rootVolume:
  source: {pvc: {namespace: machines, name: shoot--p--s-cpu-worker-z1-5f4d8}}
  pvc: {accessModes: [ReadWriteOnce], storageClassName: standard, resources: {requests: {storage: 20Gi}}}
sshKeys: ["ssh-rsa AAAA one@example.com"]
`

// renderPredecessors decodes a MachineClass of the predecessor with these fields in place of those
// of its spec, and returns the rendered VirtualMachine as unstructured data.
func renderPredecessors(t *testing.T, fields string) (map[string]any, error) {
	t.Helper()

	var spec, override map[string]any

	require.NoError(t, yaml.Unmarshal([]byte(predecessorSpec), &spec))
	require.NoError(t, yaml.Unmarshal([]byte(fields), &override))

	for key, value := range override {
		spec[key] = value
	}

	raw, err := yaml.Marshal(spec)
	require.NoError(t, err)
	raw, err = yaml.YAMLToJSON(raw)
	require.NoError(t, err)

	r := validRequest()
	r.class.Provider = "kubevirtdriver//127.0.0.1:8080"
	r.class.ProviderSpec.Raw = raw

	in, err := r.decode()
	if err != nil {
		return nil, err
	}

	vm, err := render.VirtualMachine(in, "machines")
	require.NoError(t, err)
	text, err := yaml.Marshal(vm)
	require.NoError(t, err)

	var object map[string]any

	require.NoError(t, yaml.Unmarshal(text, &object))

	return object, nil
}

// at returns the value at a path.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()

	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			list, _ := value.([]any)
			require.Greater(t, len(list), step)
			value = list[step]
		}
	}

	return value
}

// TestDecodeCreateMachine_WorkerConfig requires every option of the predecessor's guide to have its
// effect on the VirtualMachine.
func TestDecodeCreateMachine_WorkerConfig(t *testing.T) {
	t.Parallel()

	instance := []any{"spec", "template", "spec"}
	domain := append(append([]any{}, instance...), "domain")
	under := func(base []any, path ...any) []any { return append(append([]any{}, base...), path...) }

	tests := map[string]struct {
		fields string
		path   []any
		want   string // YAML
	}{
		"devices.disks of the root volume": {
			`devices: {disks: [{name: root-disk, disk: {bus: virtio}, cache: writethrough, dedicatedIOThread: true}]}`,
			under(domain, "devices", "disks", 0), `{name: root-disk, disk: {bus: virtio}, cache: writethrough, dedicatedIOThread: true}`,
		},
		"devices.disks of a data volume": {
			`{devices: {disks: [{name: volume-1, disk: {}}]}, additionalVolumes: [{name: volume-1, dataVolume: {source: {blank: {}},` +
				` pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}}]}`,
			under(domain, "devices", "disks", 1), `{name: volume-1, disk: {}}`,
		},
		"devices: disks that are not configured": {``, under(domain, "devices", "disks", 0), `{name: root-disk, disk: {bus: virtio}}`},
		"devices.rng":                            {`devices: {rng: {}}`, under(domain, "devices", "rng"), `{}`},
		"devices.blockMultiQueue":                {`devices: {blockMultiQueue: true}`, under(domain, "devices", "blockMultiQueue"), `true`},
		"devices.networkInterfaceMultiQueue": {
			`devices: {networkInterfaceMultiQueue: true}`, under(domain, "devices", "networkInterfaceMultiqueue"), `true`,
		},
		"devices.networkInterfaceMultiqueue": {
			`devices: {networkInterfaceMultiqueue: true}`, under(domain, "devices", "networkInterfaceMultiqueue"), `true`,
		},
		"cpu": {
			`cpu: {cores: 1, sockets: 2, threads: 1, model: host-model, features: [pcid], dedicatedCpuPlacement: true, isolateEmulatorThread: true}`,
			under(domain, "cpu"),
			`{cores: 1, sockets: 2, threads: 1, model: host-model, features: [{name: pcid}], dedicatedCpuPlacement: true, isolateEmulatorThread: true}`,
		},
		"memory":                     {`memory: {hugepages: {pageSize: 2Mi}, guest: 4Gi}`, under(domain, "memory"), `{hugepages: {pageSize: 2Mi}, guest: 4Gi}`},
		"memory: the machine type's": {``, under(domain, "resources", "requests", "memory"), `4Gi`},
		"overcommitGuestOverhead": {
			`resources: {requests: {cpu: "1", memory: 4Gi}, overcommitGuestOverhead: true}`,
			under(domain, "resources"), `{requests: {cpu: "1", memory: 4Gi}, overcommitGuestOverhead: true}`,
		},
		"overcommitGuestOverhead: false by default":            {``, under(domain, "resources", "overcommitGuestOverhead"), `null`},
		"dnsPolicy ClusterFirstWithHostNet":                    {`dnsPolicy: ClusterFirstWithHostNet`, under(instance, "dnsPolicy"), `ClusterFirstWithHostNet`},
		"dnsPolicy ClusterFirst":                               {`dnsPolicy: ClusterFirst`, under(instance, "dnsPolicy"), `ClusterFirst`},
		"dnsPolicy Default":                                    {`dnsPolicy: Default`, under(instance, "dnsPolicy"), `Default`},
		"dnsPolicy None":                                       {`{dnsPolicy: None, dnsConfig: {nameservers: [8.8.8.8]}}`, under(instance, "dnsPolicy"), `None`},
		"dnsPolicy: KubeVirt's default, which is ClusterFirst": {``, under(instance, "dnsPolicy"), `null`},
		"dnsConfig":      {`dnsConfig: {nameservers: [8.8.8.8]}`, under(instance, "dnsConfig"), `{nameservers: [8.8.8.8]}`},
		"shared network": {`networks: [{name: default/net-conf}]`, under(instance, "networks", 1, "multus"), `{networkName: default/net-conf}`},
		"tenant network": {`networks: [{name: network-1, default: false}]`, under(instance, "networks", 1, "multus"), `{networkName: network-1}`},
		"default tenant network": {
			`networks: [{name: default/net-conf}, {name: network-1, default: true}]`, under(instance, "networks"),
			`[{name: default, multus: {networkName: network-1, default: true}}, {name: net0, multus: {networkName: default/net-conf}}]`,
		},
		"no network: the pod network": {``, under(instance, "networks"), `[{name: default, pod: {}}]`},
		"volume": {
			``,
			[]any{"spec", "dataVolumeTemplates", 0, "spec"},
			`{source: {pvc: {namespace: machines, name: shoot--p--s-cpu-worker-z1-5f4d8}}, pvc: {accessModes: [ReadWriteOnce],` +
				` storageClassName: standard, resources: {requests: {storage: 20Gi}}}}`,
		},
		"dataVolumes": {
			`additionalVolumes: [{name: volume-1, dataVolume: {source: {blank: {}}, pvc: {accessModes: [ReadWriteOnce],` +
				` resources: {requests: {storage: 10Gi}}}}}]`,
			[]any{"spec", "dataVolumeTemplates", 1, "spec"},
			`{source: {blank: {}}, pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}`,
		},
		"disablePreAllocatedDataVolumes": {
			`{disablePreAllocatedDataVolumes: true, rootVolume: {source: {http: {url: "https://images.example.com/worker.qcow2"}},` +
				` pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}}`,
			[]any{"spec", "dataVolumeTemplates", 0, "spec", "source"},
			`{http: {url: "https://images.example.com/worker.qcow2"}}`,
		},
		"region and zone": {
			``, under(instance, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
			`[{matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [europe-west1]},` +
				` {key: topology.kubernetes.io/zone, operator: In, values: [europe-west1-c]}]}]`,
		},
		"region and zone: default": {
			`{region: default, zone: default}`,
			under(instance, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
			`[{matchExpressions: [{key: topology.kubernetes.io/region, operator: DoesNotExist}, {key: topology.kubernetes.io/zone, operator: DoesNotExist}]}]`,
		},
		"sshKeys": {
			``, under(instance, "accessCredentials", 0, "sshPublicKey", "propagationMethod"), `{noCloud: {}}`,
		},
		"tags": {``, []any{"metadata", "labels", "mcm.gardener.cloud/machineclass"}, `shoot--p--s-cpu-worker-z1-5f4d8`},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm, err := renderPredecessors(t, tc.fields)
			require.NoError(t, err)

			var want any

			require.NoError(t, yaml.Unmarshal([]byte(tc.want), &want))
			require.Equal(t, want, at(t, vm, tc.path...))
		})
	}
}

// TestDecodeCreateMachine_WorkerConfigBounds requires the bounds of the guide.
func TestDecodeCreateMachine_WorkerConfigBounds(t *testing.T) {
	t.Parallel()

	for name, fields := range map[string]string{
		"memory.guest below the requests":   `memory: {guest: 1Gi}`,
		"memory.guest above the limits":     `{resources: {limits: {memory: 4Gi}}, memory: {guest: 5Gi}}`,
		"a disk that is no volume's":        `devices: {disks: [{name: volume-1, disk: {}}]}`,
		"two default networks":              `networks: [{name: a, default: true}, {name: b, default: true}]`,
		"region and zone are both required": `zone: ""`,
		"a data volume has a name":          `additionalVolumes: [{dataVolume: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := renderPredecessors(t, fields)
			require.ErrorIs(t, err, spi.ErrInvalid)
		})
	}
}
