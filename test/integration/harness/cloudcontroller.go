// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// RequireBehindLoadBalancers requires that EnsureLoadBalancer's selector selects the pods of
// exactly these machines. It selects by role and by the cluster's name (--cluster-name), for which
// shoots use their cluster tag.
func (s *Shoot) RequireBehindLoadBalancers(t *testing.T, cluster string, names ...string) {
	t.Helper()

	selector := labels.SelectorFromSet(labels.Set{
		"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": cluster,
	})

	pods, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector.String()})
	require.NoError(t, err)

	var selected []string

	for i := range pods.Items {
		selected = append(selected, pods.Items[i].Labels["vm.kubevirt.io/name"])
	}

	require.ElementsMatch(t, names, selected)
}
