// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// base is a valid spec, whose fields the cases override.
const base = `
region: eu
zone: eu-1
tags: {mcm.gardener.cloud/cluster: shoot--p--s, mcm.gardener.cloud/role: node}
memory: {guest: 1Gi}
rootVolume: {sourceRef: {kind: DataSource, name: worker}, storage: {resources: {requests: {storage: 20Gi}}}}
`

// invalidFields returns the fields of the errors of a spec in YAML, merged over base.
func invalidFields(t *testing.T, over string, policy validation.TemplatePolicy) []string {
	t.Helper()

	var got []string
	for _, err := range validate(t, over, validation.Options{Template: policy}) {
		got = append(got, err.Field)
	}

	return got
}

// details returns the messages of these errors, without their fields.
func details(t *testing.T, over string) []string {
	t.Helper()

	var got []string
	for _, err := range validate(t, over, validation.Options{Template: validation.TemplateSafe}) {
		got = append(got, err.Detail)
	}

	return got
}

func validate(t *testing.T, over string, options validation.Options) field.ErrorList {
	t.Helper()

	var spec, fields map[string]any

	require.NoError(t, yaml.Unmarshal([]byte(base), &spec))
	require.NoError(t, yaml.UnmarshalStrict([]byte(over), &fields))

	for key, value := range fields {
		spec[key] = value
	}

	raw, err := yaml.Marshal(spec)
	require.NoError(t, err)
	raw, err = yaml.YAMLToJSON(raw)
	require.NoError(t, err)

	_, errs := validation.Decode(raw, options)
	for _, err := range errs {
		require.NotEmpty(t, err.Detail, "every error has a remedy")
	}

	return errs
}

func TestDecode(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		spec   string
		want   []string
	}{
		"Base": {reason: "the base of all cases is valid"},
		"BothKinds": {
			reason: "errors of decoding and validation are reported together",
			spec:   `{zoen: a, zone: 7, region: "a b", networks: [{name: a, mac: Stabel, deflt: true}]}`,
			want:   []string{"providerSpec.zoen", "providerSpec.zone", "providerSpec.region", "providerSpec.networks[0].mac", "providerSpec.networks[0].deflt"},
		},
		"UnreadableIsNotMissing": {
			reason: "a field of a wrong type is not reported as missing",
			spec:   `{tags: [], memory: 8Gi, rootVolume: big}`,
			want:   []string{"providerSpec.tags", "providerSpec.memory", "providerSpec.rootVolume"},
		},
		"GuestBelowRequest": {
			reason: "the guest could not use the requested memory",
			spec:   `{resources: {requests: {memory: 2Gi}}}`,
			want:   []string{"providerSpec.memory.guest"},
		},
		"GuestAboveLimit": {
			reason: "the pod would be killed",
			spec:   `{resources: {limits: {memory: 512Mi}}}`,
			want:   []string{"providerSpec.memory.guest"},
		},
		"GuestWithinBounds": {reason: "the bounds themselves are valid", spec: `{resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}}`},
		"BoundsAcrossTheTemplate": {
			reason: "the values after the merge count",
			spec:   `{virtualMachineTemplate: {spec: {template: {spec: {domain: {resources: {limits: {memory: 512Mi}}}}}}}}`,
			want:   []string{"providerSpec.memory.guest"},
		},
		"EightBytes": {
			reason: "the unit is missing",
			spec:   `{virtualMachineTemplate: {spec: {template: {spec: {domain: {memory: {guest: "8"}}}}}}}`,
			want:   []string{"providerSpec.virtualMachineTemplate.spec.template.spec.domain.memory.guest"},
		},
		"Resources": {
			reason: "the pod would never be created",
			spec: `{resources: {requests: {hugepages-2Mi: 1Gi}, limits: {hugepages-foo: 1Gi, hugepages-1Gi: 3Mi, example.com/gpu: -1,` +
				` ephemeral-storage: -5Gi}}}`,
			want: []string{
				"providerSpec.resources.requests[hugepages-2Mi]", "providerSpec.resources.limits[hugepages-foo]",
				"providerSpec.resources.limits[hugepages-1Gi]", "providerSpec.resources.limits[example.com/gpu]",
				"providerSpec.resources.limits[ephemeral-storage]",
			},
		},
		"KubeVirtsOwnVolumes": {
			reason: "the pod would have two volumes of the same name",
			spec: `{additionalVolumes: [{name: sockets, volumeSource: {secret: {secretName: a}}},` +
				` {name: cloudinit-udata, volumeSource: {secret: {secretName: a}}}]}`,
			want: []string{"providerSpec.additionalVolumes[0].name", "providerSpec.additionalVolumes[1].name"},
		},
		"ManagedBy": {
			reason: "it names the driver",
			spec:   `{tags: {mcm.gardener.cloud/cluster: c, mcm.gardener.cloud/role: node, app.kubernetes.io/managed-by: me}}`,
			want:   []string{"providerSpec.tags[app.kubernetes.io/managed-by]"},
		},
		"MemoryOfTemplate": {
			reason: "the template may set it",
			spec:   `{memory: null, virtualMachineTemplate: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}`,
		},
		"MemoryOfInstancetype": {
			reason: "an instancetype sets it",
			spec:   `{memory: null, virtualMachineTemplate: {spec: {instancetype: {name: big}}}}`,
		},
		"ContainerDisk": {reason: "the root disk may be ephemeral", spec: `{rootVolume: {containerDisk: {image: "registry.example.com/a:1"}}}`},
		"ContainerDiskAndDataVolume": {
			reason: "there is one root",
			spec:   `{rootVolume: {containerDisk: {}, source: {blank: {}}}, goldenImage: {}}`,
			want:   []string{"providerSpec.rootVolume.containerDisk", "providerSpec.rootVolume.containerDisk.image", "providerSpec.goldenImage"},
		},
		"GoldenImage": {
			reason: "images may be smaller than root volumes",
			spec: `{goldenImage: {size: 5Gi}, rootVolume: {source: {http: {url: "https://x/y"}},` +
				` storage: {resources: {requests: {storage: 20Gi}}}}}`,
		},
		"GoldenImageTooLarge": {
			reason: "a clone cannot be smaller than its source",
			spec: `{goldenImage: {size: 25Gi}, rootVolume: {source: {http: {url: "https://x/y"}},` +
				` storage: {resources: {requests: {storage: 20Gi}}}}}`,
			want: []string{"providerSpec.goldenImage.size"},
		},
		"GoldenImageSwitchedOff": {
			reason: "they are mutually exclusive",
			spec:   `{goldenImage: {}, disablePreAllocatedDataVolumes: true}`,
			want:   []string{"providerSpec.goldenImage"},
		},
		"GoldenImageOfClone": {reason: "nothing is imported", spec: `{goldenImage: {}}`, want: []string{"providerSpec.goldenImage"}},
		"ChecksumOfGoldenImage": {
			reason: "golden images support it",
			spec: `{rootVolume: {source: {http: {url: "https://x/y", checksum: "md5:00000000000000000000000000000000", insecureSkipVerify: true}},` +
				` storage: {resources: {requests: {storage: 20Gi}}}}}`,
		},
		"ChecksumOfMachinesOwn": {
			reason: "KubeVirt would drop it",
			spec: `{disablePreAllocatedDataVolumes: true, rootVolume: {source: {http: {url: "https://x/y", checksum: "sha256:00"}},` +
				` storage: {resources: {requests: {storage: 20Gi}}}}, additionalVolumes: [{name: data, dataVolume: {source:` +
				` {http: {url: "https://x/y", insecureSkipVerify: true}}, storage: {resources: {requests: {storage: 20Gi}}}}}]}`,
			want: []string{
				"providerSpec.rootVolume.source.http.checksum", "providerSpec.additionalVolumes[0].dataVolume.source.http.insecureSkipVerify",
			},
		},
		"CloudInit":     {reason: "both types", spec: `{cloudInit: {type: ConfigDrive, networkData: "{}"}}`},
		"CloudInitType": {reason: "there are two types", spec: `{cloudInit: {type: configDrive}}`, want: []string{"providerSpec.cloudInit.type"}},
		"SSHKeys": {
			reason: "a key is one line; a trailing newline is harmless",
			spec:   `{sshKeys: ["ssh-rsa AAAA\n", "", "ssh-rsa", "ssh-rsa A\nssh-rsa B", "-----BEGIN OPENSSH PRIVATE KEY----- a"]}`,
			want:   []string{"providerSpec.sshKeys[1]", "providerSpec.sshKeys[2]", "providerSpec.sshKeys[3]", "providerSpec.sshKeys[4]"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.ElementsMatch(t, tc.want, invalidFields(t, tc.spec, validation.TemplateSafe), tc.reason)
		})
	}
}

// TestDecode_MaxErrors uses a file of another kind, which has an error in every line.
func TestDecode_MaxErrors(t *testing.T) {
	t.Parallel()

	const many = 20_000

	raw := []byte(`{"sshKeys":["` + strings.Repeat(`","`, many) + `"],"a":1` + strings.Repeat(`,"a":1`, many) + `}`)
	_, errs := validation.Decode(raw, validation.Options{})
	require.Len(t, errs, 100)
}

func TestValidateNetworks(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		spec   string
		want   []string
	}{
		"Every binding": {
			reason: "each binding is valid",
			spec:   `[{pod: {}, masquerade: {}}, {name: a, bridge: {}}, {name: b/c, sriov: {}, mac: Stable}, {name: d, binding: {name: x}}]`,
		},
		"TwoBindings":       {reason: "an interface has one", spec: `[{pod: {}, bridge: {}, masquerade: {}}]`, want: []string{"providerSpec.networks[0].masquerade"}},
		"Passt":             {reason: "it is a binding of the pod network", spec: `[{pod: {}, passtBinding: {}}]`},
		"PasstOfMultus":     {reason: "KubeVirt refuses it", spec: `[{name: a, passtBinding: {}}]`, want: []string{"providerSpec.networks[0].passtBinding"}},
		"BridgeAndPasst":    {reason: "an interface has one", spec: `[{pod: {}, bridge: {}, passtBinding: {}}]`, want: []string{"providerSpec.networks[0].passtBinding"}},
		"MigrationOfBridge": {reason: "the network may keep addresses", spec: `[{pod: {allowBridgeLiveMigration: true}}]`},
		"MigrationOfAnother": {
			reason: "it concerns bridges", spec: `[{pod: {allowBridgeLiveMigration: true}, masquerade: {}}]`,
			want: []string{"providerSpec.networks[0].pod.allowBridgeLiveMigration"},
		},
		"BindingWithoutName": {
			reason: "a plugin has a name",
			spec:   `[{name: a, binding: {}}]`,
			want:   []string{"providerSpec.networks[0].binding.name"},
		},
		"NameAndPod": {reason: "they are mutually exclusive", spec: `[{name: a, pod: {}}]`, want: []string{"providerSpec.networks[0].name"}},
		"PodAndDefault": {
			reason: "a machine has one primary network",
			spec:   `[{pod: {}}, {name: a, default: true}]`,
			want:   []string{"providerSpec.networks[1]"},
		},
		"StablePrimary": {
			reason: "the network chooses its address",
			spec:   `[{name: a, default: true, mac: Stable}]`,
			want:   []string{"providerSpec.networks[0].mac"},
		},
		"SameNetworkTwice": {reason: "two functions of one SR-IOV network may be bonded", spec: `[{name: a, sriov: {}}, {name: a, sriov: {}}]`},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.ElementsMatch(t, tc.want, invalidFields(t, "networks: "+tc.spec, validation.TemplateSafe), tc.reason)
		})
	}
}
