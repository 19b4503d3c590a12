// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

// withTemplate renders a machine with this virtualMachineTemplate, and returns the spec of the
// VirtualMachine's template.
func withTemplate(t *testing.T, template string) kubevirtv1.VirtualMachineInstanceSpec {
	t.Helper()

	raw, err := yaml.YAMLToJSONStrict([]byte(`
region: r
zone: z
tags: {mcm.gardener.cloud/cluster: c, mcm.gardener.cloud/role: node}
cpu: {cores: 2, dedicatedCpuPlacement: true, features: [{name: a, policy: require}, {name: b}]}
dnsConfig: {nameservers: [192.0.2.1], options: [{name: ndots, value: "2"}, {name: edns0}]}
virtualMachineTemplate: ` + template))
	require.NoError(t, err)

	return virtualMachine(t, input(t, raw)).Spec.Template.Spec
}

func TestMergeTemplate(t *testing.T) {
	t.Parallel()

	spec := withTemplate(t, `{spec: {template: {spec: {
		domain: {cpu: {sockets: 3, features: [{name: b, policy: disable}, {name: c}]}},
		dnsConfig: {nameservers: [192.0.2.2], options: [{name: ndots, value: "5"}]},
		terminationGracePeriodSeconds: 0}}}}`)

	require.Equal(t, &kubevirtv1.CPU{
		Cores:                 2,
		Sockets:               3,
		DedicatedCPUPlacement: true,
		Features: []kubevirtv1.CPUFeature{
			{Name: "a", Policy: "require"}, {Name: "b", Policy: "disable"}, {Name: "c"},
		},
	}, spec.Domain.CPU, "objects merge, and lists of named entries by name")
	require.Equal(t, []string{"192.0.2.2"}, spec.DNSConfig.Nameservers, "other lists replace")
	require.Equal(t, []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("5")}, {Name: "edns0"}}, spec.DNSConfig.Options)
	require.Zero(t, *spec.TerminationGracePeriodSeconds, "zero is a value")
	require.Equal(t, kubevirtv1.EvictionStrategyLiveMigrateIfPossible, *spec.EvictionStrategy, "what is not given stays")
	require.NotEmpty(t, spec.Volumes)
}

func TestEvictionStrategy_Evacuation(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"region":"r","zone":"z","tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`))

	for _, tc := range []struct {
		reason     string
		evacuation bool
		migratable bool
		want       kubevirtv1.EvictionStrategy
	}{
		{reason: "no driver evacuates it", migratable: true, want: kubevirtv1.EvictionStrategyLiveMigrateIfPossible},
		{reason: "KubeVirt migrates it, also without the driver", evacuation: true, migratable: true, want: kubevirtv1.EvictionStrategyLiveMigrate},
		{reason: "KubeVirt would shut it down", evacuation: true, want: kubevirtv1.EvictionStrategyExternal},
	} {
		in.Evacuation = tc.evacuation
		in.Migratable = tc.migratable

		vm, err := render.VirtualMachine(in, "default")
		require.NoError(t, err)
		require.Equal(t, tc.want, *vm.Spec.Template.Spec.EvictionStrategy, tc.reason)
	}
}

func TestMergeTemplate_ZeroValues(t *testing.T) {
	t.Parallel()

	spec := withTemplate(t, `{spec: {template: {spec: {
		domain: {cpu: {cores: 0, features: [], dedicatedCpuPlacement: false}}, dnsConfig: {nameservers: []}, nodeSelector: null}}}}`)
	require.Equal(t, &kubevirtv1.CPU{Features: []kubevirtv1.CPUFeature{}}, spec.Domain.CPU, "zero, false and empty lists are values")
	require.Empty(t, spec.DNSConfig.Nameservers)
	require.Len(t, spec.DNSConfig.Options, 2)
}

func TestMergeTemplate_OverridesDefaults(t *testing.T) {
	t.Parallel()

	spec := withTemplate(t, `{spec: {template: {spec: {architecture: arm64, evictionStrategy: None}}}}`)
	require.Equal(t, "arm64", spec.Architecture, "the nodeTemplate says amd64")
	require.Equal(t, kubevirtv1.EvictionStrategyNone, *spec.EvictionStrategy)
}

func TestSpread(t *testing.T) {
	t.Parallel()

	require.Len(t, withTemplate(t, `{}`).TopologySpreadConstraints, 1)
	require.Empty(t, withTemplate(t, `{spec: {template: {spec: {topologySpreadConstraints: []}}}}`).TopologySpreadConstraints, "switched off")
	require.Equal(t, "zone", withTemplate(t,
		`{spec: {template: {spec: {topologySpreadConstraints: [{topologyKey: zone}]}}}}`).TopologySpreadConstraints[0].TopologyKey, "replaced")
}

func TestRequireTopology_EveryTerm(t *testing.T) {
	t.Parallel()

	terms := func(t *testing.T, affinity string) []corev1.NodeSelectorTerm {
		t.Helper()

		spec := withTemplate(t, `{spec: {template: {spec: {affinity: `+affinity+`}}}}`)

		return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}

	const required = "requiredDuringSchedulingIgnoredDuringExecution"

	region := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyRegion, Operator: corev1.NodeSelectorOpIn, Values: []string{"r"}}
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}}
	exists := corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists}
	topology := []corev1.NodeSelectorRequirement{region, zone}

	for name, tc := range map[string]struct {
		affinity string
		want     [][]corev1.NodeSelectorRequirement // per term
	}{
		"None":          {`{}`, [][]corev1.NodeSelectorRequirement{topology}},
		"OnlyPreferred": {`{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}`, [][]corev1.NodeSelectorRequirement{topology}},
		"NoTerms":       {`{nodeAffinity: {` + required + `: {nodeSelectorTerms: []}}}`, [][]corev1.NodeSelectorRequirement{topology}},
		"Two": {
			`{nodeAffinity: {` + required + `: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]},` +
				` {matchFields: [{key: metadata.name, operator: In, values: [host-1]}]}]}}}`,
			[][]corev1.NodeSelectorRequirement{{exists, region, zone}, topology},
		},
		"Empty": {`{nodeAffinity: {` + required + `: {nodeSelectorTerms: [{}]}}}`, [][]corev1.NodeSelectorRequirement{topology}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got [][]corev1.NodeSelectorRequirement
			for _, term := range terms(t, tc.affinity) {
				got = append(got, term.MatchExpressions)
			}

			require.Equal(t, tc.want, got)
		})
	}
}

func TestStableMAC(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"tags":{},"networks":[{"name":"a"},{"name":"b"}]}`))
	seen := map[string]bool{}

	for _, uid := range []types.UID{"1", "2", "1"} {
		in.UID = uid

		for _, nic := range virtualMachine(t, in).Spec.Template.Spec.Domain.Devices.Interfaces[1:] {
			address, err := net.ParseMAC(nic.MacAddress)
			require.NoError(t, err)
			require.Equal(t, byte(2), address[0], "locally administered, and no multicast")

			seen[nic.MacAddress] = true

			if nic.Name == "net0" {
				require.Contains(t, string(render.Secrets(in, "machines")[0].Data["networkdata"]), nic.MacAddress)
			}
		}
	}

	require.Len(t, seen, 4, "one for each machine and network, always the same")
}
