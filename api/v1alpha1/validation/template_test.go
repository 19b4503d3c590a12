// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

func TestValidateTemplate(t *testing.T) {
	t.Parallel()

	const (
		vm  = "providerSpec.virtualMachineTemplate."
		vmi = vm + "spec.template.spec."
	)

	tests := map[string]struct {
		reason string
		// template is the virtualMachineTemplate; others are other fields of the spec.
		template, others string
		// safe and all are the invalid fields under these policies; safe defaults to all.
		safe, all []string
	}{
		"Metadata": {
			reason:   "own labels and annotations are allowed",
			template: `{metadata: {labels: {a: b}, annotations: {c: "d e"}}, spec: {template: {metadata: {labels: {a: b}, annotations: {kubevirt.io/x: z}}}}}`,
		},
		"WrongMetadata": {
			reason:   "KubeVirt does not validate them in a template, and then never creates the pod",
			template: `{spec: {template: {metadata: {labels: {a: "b c"}, annotations: {"d e": f}}}}}`,
			all:      []string{vm + "spec.template.metadata.labels", vm + "spec.template.metadata.annotations"},
		},
		"IdentityLabels": {
			reason: "they identify the machine",
			template: `{metadata: {labels: {mcm.gardener.cloud/role: x, kubevirt.machine.gardener.cloud/machine: x, kubevirt.provider.extensions.gardener.cloud/bastion: x}},` +
				` spec: {template: {metadata: {labels: {cluster.x-k8s.io/role: x, app.kubernetes.io/managed-by: me}}}}}`,
			all: []string{
				vm + "metadata.labels[mcm.gardener.cloud/role]", vm + "metadata.labels[kubevirt.machine.gardener.cloud/machine]",
				vm + "metadata.labels[kubevirt.provider.extensions.gardener.cloud/bastion]",
				vm + "spec.template.metadata.labels[cluster.x-k8s.io/role]", vm + "spec.template.metadata.labels[app.kubernetes.io/managed-by]",
			},
		},
		"Owned": {
			reason: "the providerSpec has fields for them",
			template: `{spec: {running: true, dataVolumeTemplates: [], template: {spec: {hostname: x, networks: [], volumes: [{name: a, emptyDisk: {}}],` +
				` domain: {devices: {interfaces: [], disks: [{name: root-disk}]}}}}}}`,
			all: []string{
				vm + "spec.running", vm + "spec.dataVolumeTemplates", vmi + "hostname", vmi + "networks", vmi + "volumes[0]",
				vmi + "domain.devices.interfaces", vmi + "domain.devices.disks[0]",
			},
		},
		"UtilityVolumes": {
			reason:   "every KubeVirt refuses them in new machines, or does not know them",
			template: `{spec: {template: {spec: {utilityVolumes: [{name: dump, claimName: dump}]}}}}`,
			all:      []string{vmi + "utilityVolumes"},
		},
		"KeysInTwoPlaces": {
			reason:   "one would replace the other",
			others:   `sshKeys: [ssh-rsa a]`,
			template: `{spec: {template: {spec: {accessCredentials: []}}}}`,
			all:      []string{vmi + "accessCredentials"},
		},
		"Unsafe": {
			reason: "they affect more than the sandbox",
			template: `{spec: {template: {metadata: {annotations: {hooks.kubevirt.io/hookSidecars: "[]"}}, spec: {serviceAccountName: x, volumes:` +
				` [{name: local, hostDisk: {path: /x, type: Disk}}, {name: token, serviceAccount: {serviceAccountName: x}}],` +
				` domain: {devices: {disks: [{name: local}, {name: token}]}}}}}}`,
			safe: []string{
				vm + "spec.template.metadata.annotations[hooks.kubevirt.io/hookSidecars]", vmi + "serviceAccountName", vmi + "volumes[0]", vmi + "volumes[1]",
			},
		},
		"Sandbox": {
			reason: "annotations are copied to the pod",
			template: `{spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/compute: unconfined,` +
				` io.kubernetes.cri-o.userns-mode: auto, example.com/fine: a}}}}}`,
			safe: []string{
				vm + "spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/compute]",
				vm + "spec.template.metadata.annotations[io.kubernetes.cri-o.userns-mode]",
			},
		},
		"NetworksByAnnotation": {
			reason:   "the driver sets the networks",
			template: `{spec: {template: {metadata: {annotations: {v1.multus-cni.io/default-network: other/net, k8s.v1.cni.cncf.io/networks: x}}}}}`,
			all: []string{
				vm + "spec.template.metadata.annotations[v1.multus-cni.io/default-network]",
				vm + "spec.template.metadata.annotations[k8s.v1.cni.cncf.io/networks]",
			},
		},
		"IdentityOfTheGuest": {
			reason:   "all machines of the class would have the same identity",
			template: `{spec: {template: {spec: {domain: {firmware: {uuid: a, serial: b}}}}}}`,
			all:      []string{vmi + "domain.firmware.uuid", vmi + "domain.firmware.serial"},
		},
		"EmptyTerm": {
			reason: "with KubeVirt's additions, it would match nodes in every zone",
			template: `{spec: {template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:` +
				` {nodeSelectorTerms: [{}, {matchExpressions: [{key: a, operator: Exists}]}]}}}}}}}`,
			all: []string{vmi + "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"},
		},
		"HostDiskOfTheDriversName": {
			reason:   "a volume has one source",
			template: `{spec: {template: {spec: {volumes: [{name: root-disk, hostDisk: {path: /x, type: Disk}}]}}}}`,
			all:      []string{vmi + "volumes[0]"},
			safe:     []string{vmi + "volumes[0]", vmi + "volumes[0]"},
		},
		"PodRules": {
			reason: "the pod would never be created",
			template: `{spec: {template: {spec: {subdomain: a.b, resourceClaims: [{name: "A b"}], accessCredentials: [` +
				`{sshPublicKey: {source: {secret: {secretName: a}}}}, {userPassword: {source: {secret: {secretName: a}}}}]}}}}`,
			all: []string{vmi + "subdomain", vmi + "resourceClaims[0].name", vmi + "accessCredentials[1].userPassword.source.secret.secretName"},
		},
		"RunStrategies":     {reason: "a worker may run once", template: `{spec: {runStrategy: Once}}`},
		"HaltedRunStrategy": {reason: "it would never run", template: `{spec: {runStrategy: Halted}}`, all: []string{vm + "spec.runStrategy"}},
		"ContainerDiskAlways": {
			reason:   "it would start again with an empty disk",
			others:   `rootVolume: {containerDisk: {image: x}}`,
			template: `{spec: {runStrategy: Always}}`,
			all:      []string{vm + "spec.runStrategy"},
		},
		"Paused": {
			reason:   "it would never join the cluster",
			template: `{spec: {template: {spec: {startStrategy: Paused}}}}`,
			all:      []string{vmi + "startStrategy"},
		},
		"External": {
			reason:   "no controller would act on it",
			template: `{spec: {template: {spec: {evictionStrategy: External}}}}`,
			all:      []string{vmi + "evictionStrategy"},
		},
		"Scheduling": {
			reason: "KubeVirt copies them to the pod without validation",
			template: `{spec: {template: {spec: {nodeSelector: {a: "b c"}, priorityClassName: A, tolerations: [{operator: Is}, {key: a, operator: Exists,` +
				` value: b}, {key: a, effect: Never}, {value: b}, {key: "a b", operator: Exists}, {operator: Exists, tolerationSeconds: 1},` +
				` {operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 1}]}}}}`,
			all: []string{
				vmi + "nodeSelector", vmi + "priorityClassName", vmi + "tolerations[0].operator", vmi + "tolerations[0].operator",
				vmi + "tolerations[1].value", vmi + "tolerations[2].effect", vmi + "tolerations[3].operator", vmi + "tolerations[4].key",
				vmi + "tolerations[5].effect",
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := "virtualMachineTemplate: " + tc.template + "\n" + tc.others
			if tc.safe == nil {
				tc.safe = tc.all
			}

			require.Equal(t, []string{"providerSpec.virtualMachineTemplate"}, invalidFields(t, spec, validation.TemplateNone))
			require.ElementsMatch(t, tc.safe, invalidFields(t, spec, validation.TemplateSafe), tc.reason)
			require.ElementsMatch(t, tc.all, invalidFields(t, spec, validation.TemplateAll), tc.reason)
		})
	}
}

func TestValidateEvictionStrategy_LiveMigrate(t *testing.T) {
	t.Parallel()

	const masquerade = `networks: [{pod: {}, masquerade: {}}]`

	tests := map[string]struct {
		reason string
		others string
		domain string
		// want are the fields in the message; without any, LiveMigrate is accepted.
		want []string
	}{
		"PodBridge":     {reason: "the guest would lose its address", want: []string{"providerSpec.networks"}},
		"OwnPodBridge":  {reason: "the message names its entry", others: `networks: [{pod: {}}]`, want: []string{"providerSpec.networks[0]"}},
		"Masquerade":    {reason: "it can be migrated", others: masquerade},
		"Plugin":        {reason: "the plugin decides whether it can be migrated", others: `networks: [{pod: {}, binding: {name: x}}]`},
		"MultusDefault": {reason: "its addresses are not the pod's", others: `networks: [{name: a, default: true}]`},
		"ReadWriteOnce": {
			reason: "both hosts need the disk",
			others: masquerade + `
rootVolume: {sourceRef: {kind: DataSource, name: x}, storage: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}
additionalVolumes: [{name: a, dataVolume: {source: {blank: {}}, pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}]`,
			want: []string{"providerSpec.rootVolume.storage.accessModes", "providerSpec.additionalVolumes[0].dataVolume.pvc.accessModes"},
		},
		"ReadWriteMany": {
			reason: "both hosts have the disk",
			others: masquerade + `
rootVolume: {sourceRef: {kind: DataSource, name: x}, storage: {accessModes: [ReadWriteMany], resources: {requests: {storage: 20Gi}}}}`,
		},
		"HostDevices": {
			reason: "they are bound to their host",
			others: masquerade,
			domain: `{devices: {gpus: [{name: a, deviceName: example.com/b}], hostDevices: [{name: c, deviceName: example.com/d}]}, launchSecurity: {sev: {}}, features: {hypervPassthrough: {enabled: true}}}`,
			want: []string{
				"spec.template.spec.domain.devices.gpus", "spec.template.spec.domain.devices.hostDevices",
				"spec.template.spec.domain.launchSecurity", "spec.template.spec.domain.features.hypervPassthrough",
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			domain := tc.domain
			if domain == "" {
				domain = "{}"
			}

			spec := tc.others + "\nvirtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: LiveMigrate, domain: " + domain + "}}}}"
			got := details(t, spec)

			if len(tc.want) == 0 {
				require.Empty(t, got, tc.reason)

				return
			}

			require.Len(t, got, 1, tc.reason)

			for _, field := range tc.want {
				require.Contains(t, got[0], field, tc.reason)
			}

			require.Equal(t, len(tc.want), strings.Count(got[0], "providerSpec."), "no other field prevents migration")
		})
	}
}

func TestValidateLiveMigration_HostDisks(t *testing.T) {
	t.Parallel()

	const spec = `
networks: [{pod: {}, masquerade: {}}]
devices: {disks: [{name: root-disk, lun: {reservation: true}}]}
virtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: LiveMigrate, volumes: [{name: a, hostDisk: {path: /x, type: Disk}}]}}}}`

	errs := validate(t, spec, validation.Options{Template: validation.TemplateAll})
	require.Len(t, errs, 1)
	require.Contains(t, errs[0].Detail, "providerSpec.devices.disks[0].lun.reservation")
	require.Contains(t, errs[0].Detail, "spec.template.spec.volumes[0].hostDisk")
}

func TestValidateLiveMigration_PodBridge(t *testing.T) {
	t.Parallel()

	require.Empty(t, details(t, `virtualMachineTemplate: {spec: {template: {metadata: {annotations:`+
		` {kubevirt.io/allow-pod-bridge-network-live-migration: ""}}, spec: {evictionStrategy: LiveMigrate}}}}`))

	const migrates = "\nvirtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}"

	for _, network := range []string{`{pod: {allowBridgeLiveMigration: true}}`, `{pod: {}, passtBinding: {}}`, `{pod: {}, masquerade: {}}`, `{name: a, default: true}`} {
		require.Empty(t, details(t, "networks: ["+network+"]"+migrates), network)
	}

	require.Contains(t, details(t, "networks: [{name: a}, {pod: {}}]"+migrates)[0],
		"networks[1] connects the machine to the pod network by a bridge (set passtBinding: {}")
}

// TestIsMigratable requires that each condition of a live migration is known: a machine with LiveMigrate that cannot migrate
// blocks each drain of its node, and the driver does not notice it.
func TestIsMigratable(t *testing.T) {
	t.Parallel()

	const (
		masquerade = "networks: [{pod: {}, masquerade: {}}]\n"
		disk       = "rootVolume: {containerDisk: {image: registry.example.com/os:1}}\n"
		template   = "virtualMachineTemplate: {spec: {template: {spec: "
	)

	volume := func(of string) string {
		return "additionalVolumes: [{name: d, dataVolume: {source: {blank: {}}, storage: {" + of + "resources: {requests: {storage: 1Gi}}}}}]\n"
	}

	for name, tc := range map[string]struct {
		reason string
		spec   string
		shared bool
		want   bool
	}{
		"ContainerDisk": {reason: "it has no volume", spec: masquerade + disk, want: true},
		"Bridge":        {reason: "the guest would lose its address", spec: disk},
		"Plugin":        {reason: "its registration is not known", spec: "networks: [{pod: {}, binding: {name: p}}]\n" + disk},
		"Shared":        {reason: "the StorageProfile has ReadWriteMany", spec: masquerade + disk + volume(""), shared: true, want: true},
		"NotShared":     {reason: "the StorageProfile does not", spec: masquerade + disk + volume("")},
		"Explicit":      {reason: "the spec decides", spec: masquerade + disk + volume("accessModes: [ReadWriteMany], "), want: true},
		"Once":          {reason: "the spec decides", spec: masquerade + disk + volume("accessModes: [ReadWriteOnce], "), shared: true},
		"Claim": {
			reason: "its modes are not known",
			spec:   masquerade + disk + "additionalVolumes: [{name: d, volumeSource: {persistentVolumeClaim: {claimName: c}}}]\n",
		},
		"Instancetype": {reason: "it may have devices", spec: masquerade + disk + "virtualMachineTemplate: {spec: {instancetype: {name: i}}}\n"},
		"Preference":   {reason: "it may have a TPM", spec: masquerade + disk + "virtualMachineTemplate: {spec: {preference: {name: i}}}\n"},
		"TPM":          {reason: "KubeVirt creates its volume", spec: masquerade + disk + template + "{domain: {devices: {tpm: {persistent: true}}}}}}}\n"},
		"EFI":          {reason: "KubeVirt creates its volume", spec: masquerade + disk + template + "{domain: {firmware: {bootloader: {efi: {persistent: true}}}}}}}}\n"},
		"Devices":      {reason: "claims may be devices", spec: masquerade + disk + template + "{resourceClaims: [{name: c, resourceClaimName: c}]}}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			raw, err := yaml.YAMLToJSON([]byte(tc.spec))
			require.NoError(t, err)

			spec := &v1alpha1.ProviderSpec{}
			require.NoError(t, json.Unmarshal(raw, spec))
			require.Equal(t, tc.want, validation.IsMigratable(spec, func(*cdiv1beta1.StorageSpec) bool { return tc.shared }), tc.reason)
		})
	}
}

// TestValidateEvictionStrategy_Evacuation verifies that External is allowed if the driver acts on it.
func TestValidateEvictionStrategy_Evacuation(t *testing.T) {
	t.Parallel()

	options := validation.Options{Template: validation.TemplateSafe, Evacuation: true}

	require.Empty(t, validate(t, `virtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: External}}}}`, options))

	errs := validate(t, `virtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}`, options)
	require.Len(t, errs, 1, "KubeVirt itself refuses the eviction of a machine that cannot migrate, without an event")
	require.ErrorContains(t, errs[0], "cannot be live-migrated")
}
