// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// belongTogether is cluster-autoscaler's rule to find the Machine of a Node. It skips Nodes
// without a provider ID (NodeGroupForNode in mcm_cloud_provider.go). For the others, the last
// segments of both provider IDs must be equal, or the last segment of the Node's must equal the
// Machine's name (getMachineInfo).
func belongTogether(m *v1alpha1.Machine, node *corev1.Node) bool {
	id := lastSegment(node.Spec.ProviderID)

	return node.Spec.ProviderID != "" && (id == lastSegment(m.Spec.ProviderID) || id == m.Name)
}

func lastSegment(id string) string {
	return id[strings.LastIndex(id, "/")+1:]
}

// exemplary is cluster-autoscaler's rule that selects Nodes whose capacity it uses, instead of the
// nodeTemplate, for empty pools of the same name in other zones (filterOutNodes).
func exemplary(class *v1alpha1.MachineClass, node *corev1.Node) bool {
	return node.Status.Capacity != nil && node.Labels[corev1.LabelInstanceTypeStable] == class.NodeTemplate.InstanceType
}

// requireComplete checks cluster-autoscaler's requirements on a nodeTemplate
// (validateNodeTemplate). Without a nodeTemplate it cannot scale a pool up from zero.
func requireComplete(t *testing.T, template *v1alpha1.NodeTemplate) {
	t.Helper()
	require.NotNil(t, template)

	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "gpu"} {
		require.Contains(t, template.Capacity, resource)
	}

	require.NotEmpty(t, template.InstanceType)
	require.NotEmpty(t, template.Region)
	require.NotEmpty(t, template.Zone)
}

// zeroNode is the Node that cluster-autoscaler expects for an empty pool for which there is no
// exemplary Node (buildNodeFromTemplate, buildGenericLabels).
func zeroNode(deployment *v1alpha1.MachineDeployment, class *v1alpha1.MachineClass) *corev1.Node {
	template := class.NodeTemplate
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}

	maps.Copy(node.Labels, deployment.Spec.Template.Spec.NodeTemplateSpec.Labels)
	maps.Copy(node.Labels, map[string]string{
		corev1.LabelArchStable:         ptr.Deref(template.Architecture, "amd64"),
		corev1.LabelOSStable:           "linux",
		corev1.LabelInstanceTypeStable: template.InstanceType,
		corev1.LabelTopologyRegion:     template.Region,
		corev1.LabelTopologyZone:       template.Zone,
	})

	node.Status.Capacity = zeroCapacity(template.Capacity)
	node.Status.Allocatable = node.Status.Capacity

	return node
}

// zeroCapacity is the capacity that cluster-autoscaler derives from a nodeTemplate
// (GetMachineDeploymentNodeTemplate, buildNodeFromTemplate): pods are ignored, gpu means NVIDIA
// GPUs, missing ephemeral-storage means none, and resources unknown to cluster-autoscaler are
// copied (filterExtendedResources).
func zeroCapacity(template corev1.ResourceList) corev1.ResourceList {
	const nvidia corev1.ResourceName = "nvidia.com/gpu"

	capacity := corev1.ResourceList{"hugepages-1Gi": resource.Quantity{}, "hugepages-2Mi": resource.Quantity{}}
	maps.Copy(capacity, template)

	delete(capacity, "gpu")
	delete(capacity, nvidia)

	if gpus := template["gpu"]; !gpus.IsZero() {
		capacity[nvidia] = gpus
	}

	capacity[corev1.ResourcePods] = resource.MustParse("110")
	capacity[corev1.ResourceEphemeralStorage] = template[corev1.ResourceEphemeralStorage]

	return capacity
}

// requireKnownToAutoscaler requires that cluster-autoscaler finds the Machine of the Node, does
// not back off from the pool because of it, and would have expected the pool's Nodes as they
// are if the pool were empty.
func requireKnownToAutoscaler(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	owner := requireOwner(t, s, name)
	require.Equal(t, name, owner.Name)
	require.False(t, harness.Exhausted(owner))

	deployment, err := s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).Get(t.Context(), owner.Labels["name"], metav1.GetOptions{})
	require.NoError(t, err)
	class, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Get(t.Context(), owner.Spec.Class.Name, metav1.GetOptions{})
	require.NoError(t, err)
	requireComplete(t, class.NodeTemplate)

	requireExpected(t, s, name, class, zeroNode(deployment, class))
}

// requireOwner returns the single Machine that cluster-autoscaler finds for a Node.
func requireOwner(t *testing.T, s *harness.Shoot, name string) *v1alpha1.Machine {
	t.Helper()

	node, err := s.Target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	machines, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	var owners []*v1alpha1.Machine

	for i := range machines.Items {
		if m := &machines.Items[i]; belongTogether(m, node) {
			owners = append(owners, m)
		}
	}

	require.Len(t, owners, 1)

	return owners[0]
}

// requireExpected requires that a Node matches cluster-autoscaler's expectation once
// machine-controller-manager has added the labels of its MachineDeployment, and that the Node is
// then exemplary for empty pools.
func requireExpected(t *testing.T, s *harness.Shoot, name string, class *v1alpha1.MachineClass, expected *corev1.Node) {
	t.Helper()

	var node *corev1.Node

	harness.Eventually(t, name+" has the labels that cluster-autoscaler expects", func(ctx context.Context) (bool, error) {
		var err error

		node, err = s.Target.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})

		return err == nil && labels.SelectorFromSet(expected.Labels).Matches(labels.Set(node.Labels)), err
	})
	require.True(t, exemplary(class, node))

	want := expected.Status.Capacity
	have := node.Status.Capacity
	for name, quantity := range want {
		require.GreaterOrEqual(t, have.Name(name, resource.DecimalSI).Cmp(quantity), 0, "%s: expected %s", name, quantity.String())
	}

	require.Zero(t, want.Cpu().Cmp(*have.Cpu()))
	require.Zero(t, want.Memory().Cmp(*have.Memory()))
	require.False(t, want.StorageEphemeral().IsZero(), "a pod that requests ephemeral storage would never scale the pool up from zero")
}
