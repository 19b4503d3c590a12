package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Gardener's cluster-autoscaler decides by the objects that machine-controller-manager and the driver write. Its module cannot be had as
// a dependency, so that its rules are written down here as they are in cluster-autoscaler/cloudprovider/mcm/mcm_manager.go of
// github.com/gardener/autoscaler.

// exhausted is the rule by which it gives a worker pool up for a while, and tries others (generateInstanceStatus): nothing else than
// the code counts. It looks only while the Machine has no Node.
func exhausted(m *v1alpha1.Machine) bool {
	last := m.Status.LastOperation

	return last.Type == v1alpha1.MachineOperationCreate && last.State == v1alpha1.MachineStateFailed &&
		last.ErrorCode == codes.ResourceExhausted.String()
}

// belongTogether is the rule by which it finds the Machine of a Node (getMachineInfo): the last segments of their provider IDs are the
// same, or that of the Node's is the Machine's name. It passes over Nodes without an ID.
func belongTogether(m *v1alpha1.Machine, node *corev1.Node) bool {
	id := lastSegment(node.Spec.ProviderID)

	return node.Spec.ProviderID != "" && (id == lastSegment(m.Spec.ProviderID) || id == m.Name)
}

func lastSegment(id string) string {
	return id[strings.LastIndex(id, "/")+1:]
}

// zeroNode is the Node that it expects of a pool that has none (GetMachineDeploymentNodeTemplate, buildNodeFromTemplate): without a
// template, or without one of these values, it cannot scale the pool up from zero.
func zeroNode(class *v1alpha1.MachineClass) (*corev1.Node, error) {
	template := class.NodeTemplate
	if template == nil {
		return nil, errors.New("no nodeTemplate")
	}

	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, "gpu", corev1.ResourceMemory} {
		if _, ok := template.Capacity[resource]; !ok {
			return nil, fmt.Errorf("nodeTemplate.capacity has no %s", resource)
		}
	}

	if template.InstanceType == "" || template.Region == "" || template.Zone == "" {
		return nil, errors.New("nodeTemplate lacks instanceType, region or zone")
	}

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		corev1.LabelInstanceTypeStable: template.InstanceType,
		corev1.LabelTopologyRegion:     template.Region,
		corev1.LabelTopologyZone:       template.Zone,
	}}}
	if template.Architecture != nil {
		node.Labels[corev1.LabelArchStable] = *template.Architecture
	}

	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: template.Capacity[corev1.ResourceCPU], corev1.ResourceMemory: template.Capacity[corev1.ResourceMemory],
	}

	return node, nil
}

// requireKnownToAutoscaler requires that cluster-autoscaler finds the Machine of the Node, that it is no reason to give the pool up, and
// that the pool's Nodes are what it would have expected of an empty pool.
func (s *shoot) requireKnownToAutoscaler(t *testing.T, name string) {
	t.Helper()

	node, err := s.target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	machines, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	var owner *v1alpha1.Machine

	for i := range machines.Items {
		if m := &machines.Items[i]; belongTogether(m, node) {
			require.Nil(t, owner, "two Machines for a Node")

			owner = m
		}
	}

	require.NotNil(t, owner)
	require.Equal(t, name, owner.Name)
	require.False(t, exhausted(owner))

	class, err := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Get(t.Context(), owner.Spec.Class.Name, metav1.GetOptions{})
	require.NoError(t, err)

	expected, err := zeroNode(class)
	require.NoError(t, err)

	for _, label := range []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, corev1.LabelArchStable} {
		require.Equal(t, expected.Labels[label], node.Labels[label], label)
	}

	for resource, want := range expected.Status.Capacity {
		have := node.Status.Capacity[resource]
		require.Zero(t, want.Cmp(have), "%s: expected %s, the Node has %s", resource, want.String(), have.String())
	}
}
