// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestRenderNode(t *testing.T) {
	t.Parallel()
	node, err := renderNode(Node{Name: "n", Region: "r", Zone: "z", CPU: "4", Memory: "8Gi"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		corev1.LabelHostname: "n", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: "z",
		"kubevirt.io/schedulable": "true", "machine-type.node.kubevirt.io/q35": "true",
		"host-model-cpu.node.kubevirt.io/Simulated": "true", "cpu-model-migration.node.kubevirt.io/Simulated": "true",
	}, node.Labels)
	require.Equal(t, int64(4), node.Status.Allocatable.Cpu().Value())
	require.Equal(t, int64(DefaultPods), node.Status.Allocatable.Pods().Value())
	kvm := node.Status.Allocatable["devices.kubevirt.io/kvm"]
	require.Equal(t, int64(1000), kvm.Value())
	require.Empty(t, node.Spec.Taints)

	node, err = renderNode(Node{Name: "n", CPU: "4", Memory: "8Gi", Taint: "reserved", WithoutKVM: true})
	require.NoError(t, err)
	require.Equal(t, []corev1.Taint{{Key: "reserved", Effect: corev1.TaintEffectNoSchedule}}, node.Spec.Taints)
	require.NotContains(t, node.Status.Allocatable, corev1.ResourceName("devices.kubevirt.io/kvm"))
	require.Contains(t, node.Status.Allocatable, corev1.ResourceName("devices.kubevirt.io/tun"))
}

func TestRenderNodeRefusesBadQuantities(t *testing.T) {
	t.Parallel()
	_, err := renderNode(Node{Name: "n", CPU: "many", Memory: "8Gi"})
	require.ErrorContains(t, err, "many")
	_, err = renderNode(Node{Name: "n", CPU: "1", Memory: "lots"})
	require.ErrorContains(t, err, "lots")
}

func TestDefaultNodes(t *testing.T) {
	t.Parallel()
	perZone := map[string]int{}
	names := map[string]bool{}
	for _, node := range DefaultNodes() {
		perZone[node.Zone]++
		names[node.Name] = true
		rendered, err := renderNode(node)
		require.NoError(t, err)
		if node.Zone == "" {
			require.NotContains(t, rendered.Labels, corev1.LabelTopologyZone)
			require.NotContains(t, rendered.Labels, corev1.LabelTopologyRegion)
		}
	}
	require.Equal(t, map[string]int{"zone-a": 2, "zone-b": 2, "": 1}, perZone)
	require.Len(t, names, 5)
}

func TestSetNodeCondition(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ready := NodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")
	var status corev1.NodeStatus

	SetNodeCondition(&status, ready, start)
	SetNodeCondition(&status, ready, start.Add(time.Minute))
	require.Len(t, status.Conditions, 1)
	require.Equal(t, start, status.Conditions[0].LastHeartbeatTime.Time, "an unchanged status is reported rarely")

	SetNodeCondition(&status, ready, start.Add(statusPeriod))
	require.Equal(t, start.Add(statusPeriod), status.Conditions[0].LastHeartbeatTime.Time)
	require.Equal(t, start, status.Conditions[0].LastTransitionTime.Time)

	status.Conditions[0].Status = corev1.ConditionUnknown // by the node-lifecycle controller
	revived := start.Add(statusPeriod + time.Second)
	SetNodeCondition(&status, ready, revived)
	require.Equal(t, corev1.ConditionTrue, status.Conditions[0].Status)
	require.Equal(t, revived, status.Conditions[0].LastTransitionTime.Time)
}

func TestRenderLeaseBelongsToItsNode(t *testing.T) {
	t.Parallel()
	node, err := renderNode(Node{Name: "n", CPU: "4", Memory: "8Gi"})
	require.NoError(t, err)
	node.UID = "uid"
	lease := renderLease(node, time.Now())
	require.Equal(t, corev1.NamespaceNodeLease, lease.Namespace)
	require.Equal(t, node.UID, lease.OwnerReferences[0].UID)
	require.Equal(t, "n", *lease.Spec.HolderIdentity)
}
