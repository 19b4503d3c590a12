// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// KubeVirt's cloud-controller-manager runs beside the driver in a shoot's control plane and uses
// the same virtual machines. Its module is not usable as a dependency, so this file copies its
// rules, with its defaults, from pkg/provider of github.com/kubevirt/cloud-provider-kubevirt: from
// instances_v2.go at 6e1385307e17cd63c620e805657f0fe1234dce89, and from loadbalancer.go at
// 1366ee336272fa68efee7d9e6ffdb0090bd9aaa0.
//
// Two rules are omitted, since a machine must not depend on them: an instance whose name differs
// from the Node's is looked up by its host name, with a field selector that the API server does not
// support; and a Node keeps its addresses while its instance reports none.

// cloudProviderID matches a provider ID and captures the name of its instance.
var cloudProviderID = regexp.MustCompile(`^kubevirt://([0-9A-Za-z_-]+)$`)

// instanceMetadata is the metadata that cloud-controller-manager writes to a Node.
type instanceMetadata struct {
	providerID   string
	address      string
	region, zone string
	instanceType string // empty: not written
}

// metadataOf finds the instance of a Node by a label of the Node, or by its name, and describes it
// (InstanceMetadata). Only the interface named "default" provides an address; region and zone are
// those of the instance's host; cluster instancetypes are ignored.
func metadataOf(t *testing.T, s *harness.Shoot, node *corev1.Node) (*kubevirtv1.VirtualMachineInstance, instanceMetadata) {
	t.Helper()

	name, labelled := node.Labels["node.kubernetes.io/instance-id"]
	if !labelled {
		name = node.Name
	}

	instance, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "cloud-controller-manager would treat the instance as gone, and delete the Node")

	found := instanceMetadata{
		providerID:   "kubevirt://" + instance.Name,
		instanceType: instance.Annotations[kubevirtv1.InstancetypeAnnotation],
	}

	for _, i := range instance.Status.Interfaces {
		if i.Name == "default" && i.IP != "" {
			found.address = i.IP

			break
		}
	}

	host, err := s.Kube.CoreV1().Nodes().Get(t.Context(), instance.Status.NodeName, metav1.GetOptions{})
	require.NoError(t, err)

	found.region = host.Labels[corev1.LabelTopologyRegion]
	found.zone = host.Labels[corev1.LabelTopologyZone]

	return instance, found
}

// requireKnownToCloudController requires that KubeVirt's cloud-controller-manager accepts the
// machine's provider ID, finds its instance by that ID and by the Node, reads its address, region
// and zone, and that a load balancer of the cluster selects the pods of the cluster's machines.
func requireKnownToCloudController(t *testing.T, s *harness.Shoot, name, zone string) {
	t.Helper()

	node, err := s.Target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	machines, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	ids := map[string]string{}
	for i := range machines.Items {
		ids[machines.Items[i].Name] = machines.Items[i].Spec.ProviderID
	}

	for _, id := range []string{node.Spec.ProviderID, ids[name]} {
		parts := cloudProviderID.FindStringSubmatch(id)
		require.Len(t, parts, 2, id)
		require.Equal(t, name, parts[1])
	}

	instance, found := metadataOf(t, s, node)
	require.Equal(t, ids[name], found.providerID, "machine-controller-manager deletes a machine whose ID changes")
	require.Equal(t, zone, found.zone)
	require.Equal(t, "local", found.region)
	require.NotEmpty(t, found.address)
	require.Empty(t, found.instanceType, "the class has no instancetype")
	require.Equal(t, kubevirtv1.Running, instance.Status.Phase, "Succeeded, Failed and Unknown are a Node that is shut down")

	s.RequireBehindLoadBalancers(t, s.Namespace, slices.Collect(maps.Keys(ids))...)
}
