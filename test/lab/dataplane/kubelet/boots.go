// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// loses reports whether a node is down, and remembers it.
func (a *NodeAgent) loses(node *corev1.Node) bool {
	if !behaviour.IsDown(node) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down[node.Name] = true
	return true
}

// boots reports whether a node was down.
func (a *NodeAgent) boots(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.down[node.Name]
}

// boot reports that a node has booted again, by which the rest of the simulation knows that nothing has survived on it.
func (a *NodeAgent) boot(ctx context.Context, node *corev1.Node) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{behaviour.BootedAnnotation: a.now().UTC().Format(time.RFC3339)}},
	})
	if err != nil {
		return fmt.Errorf("encode the boot of Node %s: %w", node.Name, err)
	}
	nodes := a.provider.Client.CoreV1().Nodes()
	booted, err := nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("boot Node %s: %w", node.Name, err)
	}
	booted.Status.NodeInfo.BootID = string(uuid.NewUUID())
	if _, err := nodes.UpdateStatus(ctx, booted, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("boot Node %s: %w", node.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.down, node.Name)
	return nil
}
