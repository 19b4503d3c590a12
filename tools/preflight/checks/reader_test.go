// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestReader_ReadsOnce lets many checks read a list and two objects at a time, one of which does not exist.
func TestReader_ReadsOnce(t *testing.T) {
	t.Parallel()

	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace = "machines"
	claim.Name = "base"
	r := readerOn(t, claim)

	var running errgroup.Group

	for range 20 {
		running.Go(func() error {
			_, listed := r.quotas(t.Context())
			_, read := r.object(t.Context(), &reference{kind: kindClaim, namespace: "machines", name: "base"})
			_, missing := r.object(t.Context(), &reference{kind: kindClaim, namespace: "machines", name: "missing"})

			return errors.Join(listed, read, providerapi.Explain(missing))
		})
	}

	require.ErrorIs(t, running.Wait(), spi.ErrPrecondition)

	client, ok := r.clients.Kubernetes.(*fake.Clientset)
	require.True(t, ok)
	require.Len(t, client.Actions(), 3)
}

// TestOnce_Bounded sends more requests than a reader caches.
func TestOnce_Bounded(t *testing.T) {
	t.Parallel()

	r := &reader{}

	for i := range maxCached + 10 {
		got, err := once(r, i, func() (int, error) { return i, nil })
		require.NoError(t, err)
		require.Equal(t, i, got)
	}

	require.Len(t, r.cached, maxCached)
}

// TestNodePart_Size lets the nodes of a large cluster take half of what the checks may keep.
func TestNodePart_Size(t *testing.T) {
	t.Parallel()

	node := &corev1.Node{}
	node.Name = strings.Repeat("n", 40)
	node.Annotations = map[string]string{"a": strings.Repeat("x", 10<<10)}
	node.Labels = map[string]string{}

	for i := range 40 {
		node.Labels[fmt.Sprintf("feature-%d.node.kubevirt.io/name", i)] = "true"
	}

	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeMemoryPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Message: strings.Repeat("m", 100)})
	}

	for range 10 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{strings.Repeat("i", 100)}})
	}

	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), kvmDevice: resource.MustParse("1k")}

	part := nodePart(node)
	require.True(t, ready(&part))
	require.Equal(t, node.Labels, part.Labels)
	require.Less(t, 5_000*pages.MemoryOf(&part), int64(maxNodesMemory))
}
