// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

func TestNodeAgent_BootsAfterDown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{behaviour.DownLabel: "true"}}}
	client := fake.NewClientset(node)
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, nodes.Add(node))
	agent := NewNodeAgent(&cluster.Provider{Client: client, Nodes: corelisters.NewNodeLister(nodes)},
		[]Node{{Name: "n", CPU: "1", Memory: "1Gi"}}, "v1", func() time.Time { return now })

	agent.NoteChange(&corev1.Node{}, node)
	_, err := agent.Reconcile(t.Context(), "n")
	require.NoError(t, err)
	found, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, found.Status.NodeInfo.BootID, "it is down")

	up := node.DeepCopy()
	up.Labels = nil
	require.NoError(t, nodes.Update(up))
	_, err = agent.Reconcile(t.Context(), "n")
	require.NoError(t, err)
	found, err = client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, now, behaviour.BootedAt(found))
	first := found.Status.NodeInfo.BootID
	require.NotEmpty(t, first)

	found.Labels = nil
	require.NoError(t, nodes.Update(found))
	agent.NoteChange(node, node.DeepCopy()) // a heartbeat that was read late
	_, err = agent.Reconcile(t.Context(), "n")
	require.NoError(t, err)
	found, err = client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, first, found.Status.NodeInfo.BootID, "it boots once")
}

func TestNodeAgent_BootsAfterUnseenDown(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	client := fake.NewClientset(node)
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, nodes.Add(node))
	agent := NewNodeAgent(&cluster.Provider{Client: client, Nodes: corelisters.NewNodeLister(nodes)},
		[]Node{{Name: "n", CPU: "1", Memory: "1Gi"}}, "v1", time.Now)

	down := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{behaviour.DownLabel: "true"}}}
	agent.NoteChange(node, down)
	agent.NoteChange(down, node)
	_, err := agent.Reconcile(t.Context(), "n")
	require.NoError(t, err)
	found, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, found.Status.NodeInfo.BootID)
}
