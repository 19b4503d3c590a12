// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// TestCloudConfig_ShootUID labels load balancers with the UID of the Shoot.
func TestCloudConfig_ShootUID(t *testing.T) {
	t.Parallel()

	cluster := newCluster()
	cluster.Shoot.ObjectMeta = metav1.ObjectMeta{UID: "of this garden"}
	cluster.Shoot.Status.UID = "own"

	text, err := cloudConfig(&api.ControlPlaneConfig{}, &api.CloudProfileConfig{}, newControlPlane(), cluster)
	require.NoError(t, err)
	require.Contains(t, text, "kubevirt.provider.extensions.gardener.cloud/shoot-uid: own")
}
