// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/utils/imagevector"
	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	images "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
)

// TestShootChart_ProvisionerRole requires that the ClusterRole belongs to the version of
// csi-provisioner that the images have for a version of Kubernetes: version 5 reads the selected Node
// (sig-storage-lib-external-provisioner v11, controller.go, provisionClaimOperation), version 6 writes
// finalizers of snapshots (its pkg/controller/controller.go).
func TestShootChart_ProvisionerRole(t *testing.T) {
	t.Parallel()

	for _, minor := range kubernetesversion.SupportedVersions {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()

			image, err := images.ImageVector().FindImage(images.CSIProvisioner, imagevector.TargetVersion(minor+".0"))
			require.NoError(t, err)
			require.NotNil(t, image.Tag)

			isVersion5 := strings.HasPrefix(*image.Tag, "v5.")
			role := one[*rbacv1.ClusterRole](t, render(t, newControlPlane(), newCluster(), minor+".0"), "extensions.gardener.cloud:provider-kubevirt:csi-provisioner")

			require.Equal(t, isVersion5, allows(role, "get", "nodes"), "reads Nodes")
			require.Equal(t, !isVersion5, allows(role, "update", "volumesnapshots"), "writes finalizers of snapshots")
			require.True(t, allows(role, "get", "volumesnapshots"))
		})
	}
}

func allows(role *rbacv1.ClusterRole, verb, resource string) bool {
	for _, rule := range role.Rules {
		for _, r := range rule.Resources {
			for _, v := range rule.Verbs {
				if r == resource && v == verb {
					return true
				}
			}
		}
	}

	return false
}
