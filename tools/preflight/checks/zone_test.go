// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

func TestSelector(t *testing.T) {
	t.Parallel()

	labelled := &corev1.Node{}
	plain := &corev1.Node{}
	labelled.Labels = map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: "z"}

	anywhere := diagnose.Topology{Region: v1alpha1.AnyTopology, Zone: v1alpha1.AnyTopology}

	require.Equal(t, diagnose.Topology{Region: "r", Zone: "z"}, diagnose.TopologyOfNode(labelled.Labels))
	require.Equal(t, anywhere, diagnose.TopologyOfNode(plain.Labels), "a label that is missing is the default")
	require.Equal(t, "!topology.kubernetes.io/region,!topology.kubernetes.io/zone", selector(anywhere))
	require.Equal(t, []string{"default/default", "r/z"}, topologiesOf([]corev1.Node{*plain, *labelled}))
}

func TestRefuses(t *testing.T) {
	t.Parallel()

	taint := func(effect corev1.TaintEffect) []corev1.Taint {
		return []corev1.Taint{{Key: "gpu", Value: "yes", Effect: effect}}
	}
	tolerating := &kubevirtv1.VirtualMachineInstanceSpec{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}

	tests := map[string]struct {
		reason   string
		taints   []corev1.Taint
		instance *kubevirtv1.VirtualMachineInstanceSpec
		want     string
	}{
		"NoTaint":          {reason: "nothing keeps the instance off"},
		"NoSchedule":       {reason: "the scheduler ignores the node", taints: taint(corev1.TaintEffectNoSchedule), want: "has the taint gpu=yes:NoSchedule"},
		"NoExecute":        {reason: "the pod would be evicted, too", taints: taint(corev1.TaintEffectNoExecute), want: "has the taint gpu=yes:NoExecute"},
		"PreferNoSchedule": {reason: "the node is used if there is no other", taints: taint(corev1.TaintEffectPreferNoSchedule)},
		"Tolerated":        {reason: "the toleration is for all effects", taints: taint(corev1.TaintEffectNoSchedule), instance: tolerating},
		"OtherTaint": {
			reason:   "the toleration is for another taint",
			instance: tolerating,
			want:     "has the taint db:NoExecute",
			taints:   append(taint(corev1.TaintEffectNoSchedule), corev1.Taint{Key: "db", Effect: corev1.TaintEffectNoExecute}),
		},
		"Label": {reason: "the node lacks it", instance: &kubevirtv1.VirtualMachineInstanceSpec{NodeSelector: map[string]string{"a": "b"}}, want: "lacks the label a=b"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tc.instance == nil {
				tc.instance = &kubevirtv1.VirtualMachineInstanceSpec{}
			}

			require.Equal(t, tc.want, refuses(&corev1.Node{Spec: corev1.NodeSpec{Taints: tc.taints}}, tc.instance), tc.reason)
		})
	}
}

func TestDemands_Unfit(t *testing.T) {
	t.Parallel()

	hyperV := kubevirtv1.KubeVirtConfiguration{
		DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{FeatureGates: []string{"ConfigurableHypervisor"}},
		Hypervisors:            []kubevirtv1.HypervisorConfiguration{{Name: kubevirtv1.HyperVDirectHypervisorName}},
	}
	withoutGate := *hyperV.DeepCopy()
	withoutGate.DeveloperConfiguration = nil

	crossing := kubevirtv1.KubeVirtConfiguration{
		DeveloperConfiguration: &kubevirtv1.DeveloperConfiguration{FeatureGates: []string{"CrossArchitectureVirtualization"}},
	}

	const lacksManager = "lacks the label cpumanager=true for dedicatedCpuPlacement, " +
		"which needs the kubelet's static CPU manager and KubeVirt's feature gate CPUManager"

	dedicated := &kubevirtv1.CPU{DedicatedCPUPlacement: true}
	dedicatedType := &instancetypev1beta1.VirtualMachineInstancetypeSpec{}
	dedicatedType.CPU.DedicatedCPUPlacement = ptr.To(true)

	feature := func(policy string) *kubevirtv1.CPU {
		return &kubevirtv1.CPU{Features: []kubevirtv1.CPUFeature{{Name: "avx", Policy: policy}}}
	}

	tests := map[string]struct {
		reason   string
		kubeVirt kubevirtv1.KubeVirtConfiguration
		version  string
		device   corev1.ResourceName
		labels   map[string]string
		change   func(*corev1.Node)
		// cpu is that of the VirtualMachine, and instancetype that of its instancetype.
		cpu          *kubevirtv1.CPU
		instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
		want         string
	}{
		"Cordoned":       {reason: "a drain may be over soon", device: kvmDevice, change: func(n *corev1.Node) { n.Spec.Unschedulable = true }, want: "is cordoned"},
		"NotReady":       {reason: "no pod would start", device: kvmDevice, change: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, want: "is not ready"},
		"NoCondition":    {reason: "its kubelet has not reported", device: kvmDevice, change: func(n *corev1.Node) { n.Status.Conditions = nil }, want: "is not ready"},
		"OtherCondition": {reason: "it is about something else", device: kvmDevice, change: func(n *corev1.Node) { n.Status.Conditions[0].Type = corev1.NodeDiskPressure }, want: "is not ready"},
		"NotSchedulable": {reason: "KubeVirt selects by the label", device: kvmDevice, labels: map[string]string{kubevirtv1.NodeSchedulable: "false"}, want: "is not marked as schedulable by virt-handler (label kubevirt.io/schedulable)"},
		"Taint": {
			reason: "the machines do not tolerate it",
			device: kvmDevice,
			change: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			},
			want: "has the taint gpu:NoSchedule",
		},
		"DedicatedCPUs":      {reason: "the scheduler selects nodes by the label", device: kvmDevice, cpu: dedicated, want: lacksManager},
		"DedicatedByType":    {reason: "the instancetype has them", device: kvmDevice, instancetype: dedicatedType, want: lacksManager},
		"CPUManager":         {reason: "the label up to KubeVirt 1.8", device: kvmDevice, cpu: dedicated, labels: map[string]string{"cpumanager": "true"}},
		"NewCPUManager":      {reason: "the label since KubeVirt 1.9", device: kvmDevice, cpu: dedicated, labels: map[string]string{"kubevirt.io/cpumanager": "true"}},
		"NoCPUManager":       {reason: "virt-handler sets it to false", device: kvmDevice, cpu: dedicated, labels: map[string]string{"cpumanager": "false"}, want: lacksManager},
		"Realtime":           {reason: "likewise", device: kvmDevice, cpu: &kubevirtv1.CPU{Realtime: &kubevirtv1.Realtime{}}, want: "lacks the label kubevirt.io/realtime=true for a realtime guest"},
		"Model":              {reason: "likewise", device: kvmDevice, cpu: &kubevirtv1.CPU{Model: "EPYC"}, want: "lacks the label cpu-model.node.kubevirt.io/EPYC=true of its CPU model"},
		"HostModel":          {reason: "every node has it", device: kvmDevice, cpu: &kubevirtv1.CPU{Model: "host-passthrough"}},
		"Feature":            {reason: "likewise", device: kvmDevice, cpu: feature(""), want: "lacks the label cpu-feature.node.kubevirt.io/avx=true of its CPU feature"},
		"HasFeature":         {reason: "it is there", device: kvmDevice, cpu: feature("require"), labels: map[string]string{"cpu-feature.node.kubevirt.io/avx": "true"}},
		"OptionalFeature":    {reason: "the guest does without it", device: kvmDevice, cpu: feature("optional")},
		"KVM":                {reason: "the default hypervisor", device: kvmDevice},
		"NoKVM":              {reason: "another hypervisor's device does not help", device: hyperVDevice, want: "has no hardware virtualization (devices.kubevirt.io/kvm)"},
		"HyperV":             {reason: "it has the device of the configured hypervisor", kubeVirt: hyperV, device: hyperVDevice},
		"NoHyperV":           {reason: "it lacks it", kubeVirt: hyperV, device: kvmDevice, want: "has no hardware virtualization (devices.kubevirt.io/mshv)"},
		"HyperVWithoutGate":  {reason: "without the gate, KubeVirt ignores the hypervisor", kubeVirt: withoutGate, device: kvmDevice},
		"OtherArchitecture":  {reason: "guests run on their own architecture", device: kvmDevice, labels: map[string]string{corev1.LabelArchStable: "arm64"}, want: "does not have architecture amd64"},
		"Emulation":          {reason: "the node emulates it", kubeVirt: crossing, device: kvmDevice, labels: map[string]string{corev1.LabelArchStable: "arm64", "kubevirt.io/vm-arch-amd64": "true"}},
		"NoEmulation":        {reason: "the node does not emulate it", kubeVirt: crossing, device: kvmDevice, labels: map[string]string{corev1.LabelArchStable: "arm64", "kubevirt.io/vm-arch-arm64": "true"}, want: "does not have architecture amd64"},
		"NewerGate":          {reason: "KubeVirt 1.8 does not know the gate, and labels no node", kubeVirt: crossing, version: "v1.8.4", device: kvmDevice},
		"EmulationGateIsOff": {reason: "the label of a node may be left over", device: kvmDevice, labels: map[string]string{corev1.LabelArchStable: "arm64", "kubevirt.io/vm-arch-amd64": "true"}, want: "does not have architecture amd64"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := &demands{
				instance:     &kubevirtv1.VirtualMachineInstanceSpec{Architecture: "amd64", Domain: kubevirtv1.DomainSpec{CPU: tc.cpu}},
				instancetype: cmp.Or(tc.instancetype, &instancetypev1beta1.VirtualMachineInstancetypeSpec{}),
				kubeVirt: &kubevirtv1.KubeVirt{
					Spec:   kubevirtv1.KubeVirtSpec{Configuration: tc.kubeVirt},
					Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.version},
				},
			}

			node := &corev1.Node{Status: corev1.NodeStatus{
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Allocatable: corev1.ResourceList{tc.device: resource.MustParse("1k")},
			}}
			node.Labels = map[string]string{kubevirtv1.NodeSchedulable: "true", corev1.LabelArchStable: "amd64"}
			maps.Copy(node.Labels, tc.labels)

			if tc.change != nil {
				tc.change(node)
			}

			require.Equal(t, tc.want, d.unfit(node), tc.reason)
		})
	}
}
