// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// objectsOf are the objects of each ManagedResource.
var objectsOf = map[string][]string{
	"extension-controlplane-seed": {
		"ConfigMap cloud-provider-config", "ConfigMap machine-controller-manager-provider-kubevirt-dashboard", "ConfigMap provider-proxy",
		"Deployment cloud-controller-manager", "Deployment csi-driver-controller", "Deployment csi-snapshot-controller",
		"PodDisruptionBudget cloud-controller-manager", "PodDisruptionBudget csi-driver-controller", "PodDisruptionBudget csi-snapshot-controller",
		"PrometheusRule machine-controller-manager-provider-kubevirt", "PrometheusRule shoot-cloud-controller-manager",
		"Service cloud-controller-manager",
		"ServiceMonitor machine-controller-manager-provider-kubevirt", "ServiceMonitor shoot-cloud-controller-manager",
		"VerticalPodAutoscaler cloud-controller-manager-vpa", "VerticalPodAutoscaler csi-driver-controller-vpa", "VerticalPodAutoscaler csi-snapshot-controller-vpa",
	},
	"extension-controlplane-shoot": {
		"CSIDriver csi.kubevirt.io",
		"ClusterRole cloud-controller-manager", "ClusterRole csi-attacher", "ClusterRole csi-driver-controller", "ClusterRole csi-driver-node",
		"ClusterRole csi-provisioner", "ClusterRole csi-resizer", "ClusterRole csi-snapshot-controller", "ClusterRole csi-snapshotter",
		"ClusterRoleBinding cloud-controller-manager", "ClusterRoleBinding cloud-controller-manager:auth-delegator",
		"ClusterRoleBinding csi-attacher", "ClusterRoleBinding csi-driver-controller", "ClusterRoleBinding csi-driver-node", "ClusterRoleBinding csi-provisioner",
		"ClusterRoleBinding csi-resizer", "ClusterRoleBinding csi-snapshot-controller", "ClusterRoleBinding csi-snapshotter",
		"DaemonSet csi-driver-node",
		"Role cloud-controller-manager", "Role csi-attacher", "Role csi-provisioner", "Role csi-resizer", "Role csi-snapshot-controller", "Role csi-snapshotter",
		"RoleBinding cloud-controller-manager", "RoleBinding cloud-controller-manager:authentication-reader",
		"RoleBinding csi-attacher", "RoleBinding csi-provisioner", "RoleBinding csi-resizer", "RoleBinding csi-snapshot-controller", "RoleBinding csi-snapshotter",
		"ServiceAccount csi-driver-node",
	},
	"extension-controlplane-shoot-crds": {
		"CustomResourceDefinition volumesnapshotclasses.snapshot.storage.k8s.io",
		"CustomResourceDefinition volumesnapshotcontents.snapshot.storage.k8s.io",
		"CustomResourceDefinition volumesnapshots.snapshot.storage.k8s.io",
	},
	"extension-controlplane-shoot-webhooks": {"MutatingWebhookConfiguration gardener-extension-provider-kubevirt-shoot"},
	"extension-controlplane-storageclasses": {"StorageClass default", "VolumeSnapshotClass default"},
}

// requireObjects creates the shoot, and requires that gardener-resource-manager applied all objects,
// and that a kubelet could start their pods. It returns the objects in the shoot.
func requireObjects(t *testing.T, shoot *seed.Botanist) (inShoot []resourcesv1alpha1.ObjectReference) {
	t.Helper()
	require.NoError(t, shoot.Reconcile(t.Context()))

	for name, want := range objectsOf {
		applied := requireApplied(t, shoot, name)

		names := []string{}
		for _, o := range applied {
			names = append(names, o.Kind+" "+strings.TrimPrefix(o.Name, "extensions.gardener.cloud:provider-kubevirt:"))
		}

		slices.Sort(names)
		require.Equal(t, want, names, name)

		if name != "extension-controlplane-seed" {
			inShoot = append(inShoot, applied...)
		}
	}

	requireDeployments(t, shoot, 1)

	return inShoot
}

// requireApplied waits until a ManagedResource is applied in its present form, and returns its objects.
func requireApplied(t *testing.T, shoot *seed.Botanist, name string) []resourcesv1alpha1.ObjectReference {
	t.Helper()

	resource := &resourcesv1alpha1.ManagedResource{}

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := theSeed.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: name}, resource); err != nil {
			return false, err.Error()
		}

		applied := slices.ContainsFunc(resource.Status.Conditions, func(c gardencorev1beta1.Condition) bool {
			return c.Type == resourcesv1alpha1.ResourcesApplied && c.Status == gardencorev1beta1.ConditionTrue
		})

		return applied && resource.Status.ObservedGeneration == resource.Generation, fmt.Sprintf("%s: %v", name, resource.Status.Conditions)
	})

	return resource.Status.Resources
}
