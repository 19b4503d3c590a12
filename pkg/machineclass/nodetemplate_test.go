// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

func nodeTemplate(cpu, memory, gpu string) *v1alpha1.NodeTemplate {
	return &v1alpha1.NodeTemplate{
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "gpu": resource.MustParse(gpu),
		},
		InstanceType: "type",
		Region:       "r",
		Zone:         "z",
	}
}

func TestNodeTemplateWarnings(t *testing.T) {
	t.Parallel()

	const (
		template = "virtualMachineTemplate: {spec: {template: {spec: "
		end      = "}}}"
	)

	tests := map[string]struct {
		reason   string
		template *v1alpha1.NodeTemplate
		spec     string
		want     []string
	}{
		"Equal": {
			reason:   "units do not matter",
			template: nodeTemplate("4", "4096Mi", "0"),
			spec:     "{region: r, zone: z, cpu: {sockets: 2, cores: 2}, memory: {guest: 4Gi}}",
		},
		"None": {reason: "no scale from zero", spec: "{}", want: []string{"nodeTemplate"}},
		"AllDiffer": {
			reason:   "each disagreement is named",
			template: nodeTemplate("2", "8Gi", "1"),
			spec:     "{region: r2, zone: z2, cpu: {cores: 2, threads: 2}, memory: {guest: 4Gi}}",
			want: []string{
				"nodeTemplate.region", "nodeTemplate.zone",
				"nodeTemplate.capacity[cpu]", "nodeTemplate.capacity[memory]", "nodeTemplate.capacity[gpu]",
			},
		},
		"DefaultTopology": {
			reason:   "default stands for provider nodes without the label",
			template: nodeTemplate("1", "1Gi", "0"),
			spec:     "{region: default, zone: default, memory: {guest: 1Gi}}",
		},
		"EmptySpec": {reason: "what is missing in the spec is another message", template: nodeTemplate("1", "1Gi", "0"), spec: "{}"},
		"CPULimit": {
			reason:   "without a topology KubeVirt takes the limit, rounded up",
			template: nodeTemplate("3", "1Gi", "0"),
			spec:     "{resources: {limits: {cpu: 2500m, memory: 2Gi}, requests: {cpu: 1, memory: 1Gi}}}",
		},
		"CPURequest": {
			reason:   "and else the request",
			template: nodeTemplate("2", "2Gi", "0"),
			spec:     "{resources: {requests: {cpu: 2}, limits: {memory: 2Gi}}}",
		},
		"Template": {
			reason:   "the template is merged over the rest",
			template: nodeTemplate("8", "8Gi", "2"),
			spec: "{cpu: {sockets: 2}, memory: {guest: 1Gi}, " + template +
				"{domain: {cpu: {cores: 4}, memory: {guest: 8Gi}, devices: {gpus: [{name: a}, {name: b}]}}}" + end + "}",
		},
		"TemplateDiffers": {
			reason:   "the template is merged over the rest",
			template: nodeTemplate("1", "1Gi", "0"),
			spec: "{memory: {guest: 1Gi}, " + template +
				"{domain: {cpu: {cores: 4}, memory: {guest: 8Gi}, devices: {gpus: [{name: a}, {name: b}]}}}" + end + "}",
			want: []string{"nodeTemplate.capacity[cpu]", "nodeTemplate.capacity[memory]", "nodeTemplate.capacity[gpu]"},
		},
		"HostDevices": {
			reason:   "a GPU may be a host device, and a host device something else",
			template: nodeTemplate("1", "1Gi", "1"),
			spec:     "{" + template + "{domain: {devices: {hostDevices: [{name: a}, {name: b}]}}}" + end + "}",
		},
		"TooFewHostDevices": {
			reason:   "there are not as many",
			template: nodeTemplate("1", "1Gi", "3"),
			spec:     "{" + template + "{domain: {devices: {hostDevices: [{name: a}, {name: b}]}}}" + end + "}",
			want:     []string{"nodeTemplate.capacity[gpu]"},
		},
		"Instancetype": {
			reason:   "what it holds is known to the provider cluster only",
			template: nodeTemplate("64", "1Ti", "8"),
			spec:     "{virtualMachineTemplate: {spec: {instancetype: {name: large}}}}",
		},
		"Architecture": {
			reason:   "the template's wins",
			template: nodeTemplate("1", "1Gi", "0"),
			spec:     "{" + template + "{architecture: arm64}" + end + "}",
			want:     []string{"nodeTemplate.architecture"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := &apiv1alpha1.ProviderSpec{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(tc.spec), spec))

			var fields []string
			for _, w := range machineclass.NodeTemplateWarnings(&v1alpha1.MachineClass{NodeTemplate: tc.template}, spec) {
				fields = append(fields, w.Field)
			}

			require.Equal(t, tc.want, fields, tc.reason)
		})
	}
}

func TestNodeTemplateWarnings_TemplateArchitecture(t *testing.T) {
	t.Parallel()

	class := &v1alpha1.MachineClass{NodeTemplate: nodeTemplate("1", "1Gi", "0")}
	class.NodeTemplate.Architecture = ptr.To("arm64")

	spec := &apiv1alpha1.ProviderSpec{}
	require.NoError(t, yaml.UnmarshalStrict([]byte("virtualMachineTemplate: {spec: {template: {spec: {architecture: arm64}}}}"), spec))
	require.Empty(t, machineclass.NodeTemplateWarnings(class, spec))
}

func TestNodeTemplateErrors(t *testing.T) {
	t.Parallel()

	class := &v1alpha1.MachineClass{}
	require.Empty(t, machineclass.NodeTemplateErrors(class), "it may be missing")

	class.NodeTemplate = nodeTemplate("1", "1Gi", "0")
	require.Empty(t, machineclass.NodeTemplateErrors(class))

	class.NodeTemplate.Architecture = ptr.To("x86_64")
	errs := machineclass.NodeTemplateErrors(class)
	require.Len(t, errs, 1, "the driver refuses its machines")
	require.Equal(t, `nodeTemplate.architecture: Unsupported value: "x86_64": supported values: "amd64", "arm64", "s390x"`, errs[0].Error())

	class.NodeTemplate = &v1alpha1.NodeTemplate{}

	var fields []string
	for _, err := range machineclass.NodeTemplateErrors(class) {
		fields = append(fields, err.Field)
	}

	require.Equal(t, []string{
		"nodeTemplate.capacity[cpu]", "nodeTemplate.capacity[memory]", "nodeTemplate.capacity[gpu]",
		"nodeTemplate.instanceType", "nodeTemplate.region", "nodeTemplate.zone",
	}, fields, "machine-controller-manager refuses such a class")
}
