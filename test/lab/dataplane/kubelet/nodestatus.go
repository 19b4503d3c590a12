// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	leaseSeconds   = 40
	statusPeriod   = 5 * time.Minute // kubelet reports an unchanged status this often
	leaseNamespace = corev1.NamespaceNodeLease
)

// OSLabels returns the labels that every kubelet sets.
func OSLabels(hostname string) map[string]string {
	return map[string]string{
		corev1.LabelHostname:   hostname,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
}

// TopologyLabels returns the labels of a region and a zone, omitting empty ones.
func TopologyLabels(region, zone string) map[string]string {
	labels := map[string]string{}
	if region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	return labels
}

// NodeInfo returns the system info that kubelets of a version report.
func NodeInfo(kubelet string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		OperatingSystem:         "linux",
		Architecture:            "amd64",
		KubeletVersion:          kubelet,
		OSImage:                 "Simulated Linux",
		KernelVersion:           "6.12.0-sim",
		ContainerRuntimeVersion: "sim://1.0.0",
	}
}

// UpdateNodeStatus writes desired with the conditions of a healthy kubelet, if the status changed
// or the last report is old.
func UpdateNodeStatus(ctx context.Context, client kubernetes.Interface, node, desired *corev1.Node, now time.Time) error {
	healthy := []corev1.NodeCondition{
		NodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		NodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		NodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		NodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
	for _, condition := range healthy {
		SetNodeCondition(&desired.Status, condition, now)
	}
	if equality.Semantic.DeepEqual(node.Status, desired.Status) {
		return nil
	}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, desired, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of Node %s: %w", node.Name, err)
	}
	return nil
}

// NodeCondition returns a condition as kubelets report it.
func NodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: "reported by the simulated kubelet"}
}

// SetNodeCondition stores a condition. If it is unchanged, only an old heartbeat time is updated.
func SetNodeCondition(status *corev1.NodeStatus, condition corev1.NodeCondition, now time.Time) {
	condition.LastHeartbeatTime = metav1.NewTime(now)
	condition.LastTransitionTime = metav1.NewTime(now)
	for i, current := range status.Conditions {
		if current.Type != condition.Type {
			continue
		}
		if current.Status != condition.Status || current.Reason != condition.Reason {
			status.Conditions[i] = condition
		} else if now.Sub(current.LastHeartbeatTime.Time) >= statusPeriod {
			status.Conditions[i].LastHeartbeatTime = condition.LastHeartbeatTime
		}
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

// RenewLease creates or renews the Lease that the node-lifecycle controller uses
// as a kubelet's heartbeat.
func RenewLease(ctx context.Context, client kubernetes.Interface, node *corev1.Node, now time.Time) error {
	leases := client.CoordinationV1().Leases(leaseNamespace)
	lease := renderLease(node, now)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"ownerReferences": lease.OwnerReferences},
		"spec":     lease.Spec,
	})
	if err != nil {
		return fmt.Errorf("encode Lease %s: %w", node.Name, err)
	}
	_, err = leases.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s: %w", node.Name, err)
	}
	return nil
}

// renderLease returns a node's Lease, with an owner reference to the Node so that
// both are deleted together.
func renderLease(node *corev1.Node, now time.Time) *coordinationv1.Lease {
	holder := node.Name
	seconds := int32(leaseSeconds)
	renewed := metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      node.Name,
			Namespace: leaseNamespace,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}
