package integration

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// KubeVirt's cloud-controller-manager runs beside the driver in a shoot's control plane, and looks at the same virtual machines. Its
// module cannot be had as a dependency, so that its rules are written down here as they are in pkg/provider of
// github.com/kubevirt/cloud-provider-kubevirt at 1178e8b.

// cloudProviderID is what it reads the name of an instance from (instances_v2.go).
var cloudProviderID = regexp.MustCompile(`^kubevirt://([0-9A-Za-z_-]+)$`)

// instanceMetadata is what it writes to a Node.
type instanceMetadata struct {
	providerID   string
	addresses    []string
	region, zone string
}

// metadataOf finds the instance of a Node by the Node's name, and describes it. Of its interfaces, only that which is named "default" has
// addresses; region and zone are those of the host that it runs on.
func (s *shoot) metadataOf(t *testing.T, node string) (*kubevirtv1.VirtualMachineInstance, instanceMetadata) {
	t.Helper()

	instance, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err, "it would take the Node's instance for gone, and delete the Node")

	found := instanceMetadata{providerID: "kubevirt://" + instance.Name}

	for _, i := range instance.Status.Interfaces {
		if i.Name == "default" {
			found.addresses = i.IPs

			break
		}
	}

	host, err := s.kube.CoreV1().Nodes().Get(t.Context(), instance.Status.NodeName, metav1.GetOptions{})
	require.NoError(t, err)

	found.region, found.zone = host.Labels[corev1.LabelTopologyRegion], host.Labels[corev1.LabelTopologyZone]

	return instance, found
}

// requireKnownToCloudController requires that KubeVirt's cloud-controller-manager accepts the machine's provider ID, finds its instance by
// it and by the Node's name, reads its addresses, region and zone, and that a load balancer for the cluster selects its pod.
func (s *shoot) requireKnownToCloudController(t *testing.T, name, zone string) {
	t.Helper()

	node, err := s.target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	machine, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	for _, id := range []string{node.Spec.ProviderID, machine.Spec.ProviderID} {
		parts := cloudProviderID.FindStringSubmatch(id)
		require.Len(t, parts, 2, id)
		require.Equal(t, name, parts[1])
	}

	instance, found := s.metadataOf(t, name)
	require.Equal(t, machine.Spec.ProviderID, found.providerID, "machine-controller-manager deletes a machine whose ID changes")
	require.Equal(t, zone, found.zone)
	require.Equal(t, "local", found.region)
	require.NotEmpty(t, found.addresses)
	require.Equal(t, kubevirtv1.Running, instance.Status.Phase, "Succeeded, Failed and Unknown are a Node that is shut down")

	s.requireBehindLoadBalancers(t, name)
}

// requireBehindLoadBalancers requires that the machine's pod is selected as loadbalancer.go selects pods: by the role, and by the cluster's
// name, which is what --cluster-name says. Shoots have their cluster tag there.
func (s *shoot) requireBehindLoadBalancers(t *testing.T, name string) {
	t.Helper()

	selector := labels.SelectorFromSet(labels.Set{
		"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": s.Namespace,
	})

	pods, err := s.kube.CoreV1().Pods(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector.String()})
	require.NoError(t, err)

	var selected []string

	for i := range pods.Items {
		selected = append(selected, pods.Items[i].Labels["vm.kubevirt.io/name"])
	}

	require.Contains(t, selected, name)
}
