package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestMachinesOn(t *testing.T) {
	t.Parallel()

	node := func(name string, pairs ...string) corev1.Node {
		n := corev1.Node{Status: corev1.NodeStatus{Allocatable: amounts(quantities(pairs...))}}
		n.Name = name

		return n
	}
	nodes := []corev1.Node{
		node("a", "cpu", "4", "memory", "10Gi", "pods", "110"), node("b", "cpu", "1", "memory", "10Gi", "pods", "110"),
		node("full", "cpu", "100", "memory", "100Gi", "pods", "0"),
	}
	requests := amounts(quantities("cpu", "1", "memory", "4Gi"))

	require.Equal(t, 3, fittingOn(nodes, nil, requests), "two by memory, one by cpu, none by pods")

	other := corev1.Pod{Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: amounts(quantities("memory", "2Gi"))}},
		{Resources: corev1.ResourceRequirements{Requests: amounts(quantities("memory", "1Gi"))}},
	}}}
	require.Equal(t, 2, fittingOn(nodes, map[string]corev1.ResourceList{"a": requestsOf(&other)}, requests), "what is taken is not free")
	require.Equal(t, 3, fittingOn(nodes, map[string]corev1.ResourceList{"elsewhere": requestsOf(&other)}, requests))
	require.Equal(t, 1, fittingOn(nodes, map[string]corev1.ResourceList{"a": amounts(quantities("memory", "20Gi"))}, requests), "more than all is no debt of another node")
}

func TestInZone(t *testing.T) {
	t.Parallel()

	labelled, plain := &corev1.Node{}, &corev1.Node{}
	labelled.Labels = map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: "z"}

	there := &v1alpha1.ProviderSpec{Region: "r", Zone: "z"}
	anywhere := &v1alpha1.ProviderSpec{Region: v1alpha1.AnyTopology, Zone: v1alpha1.AnyTopology}

	require.True(t, in(labelled, there))
	require.False(t, in(plain, there))
	require.True(t, in(plain, anywhere))
	require.False(t, in(labelled, anywhere))
	require.Equal(t, "!topology.kubernetes.io/region,!topology.kubernetes.io/zone", selector(anywhere))
	require.Equal(t, []string{"default/default", "r/z"}, topologiesOf([]corev1.Node{*plain, *labelled}))
}
