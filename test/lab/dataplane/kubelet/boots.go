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

// NoteChange remembers a node that goes down. It is called for each change of a node: Reconcile, which sees the last state, may miss a short
// loss of power. Later changes of a node that is down do not count, since they may be noted after its boot.
func (a *NodeAgent) NoteChange(before, after *corev1.Node) {
	if !behaviour.IsDown(before) && behaviour.IsDown(after) {
		a.setDown(after.Name, true)
	}
}

// wasDown reports whether a node that is up has not booted yet.
func (a *NodeAgent) wasDown(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.down[node.Name]
}

func (a *NodeAgent) setDown(name string, down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down[name] = down
}

// reboot boots a node. What is noted meanwhile, and a failure, makes it boot again.
func (a *NodeAgent) reboot(ctx context.Context, node *corev1.Node) error {
	a.setDown(node.Name, false)
	err := a.boot(ctx, node)
	if err != nil {
		a.setDown(node.Name, true)
	}
	return err
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
	return nil
}
