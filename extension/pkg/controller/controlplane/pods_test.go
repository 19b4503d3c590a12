// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/networkpolicy"
)

// TestSeedChart_MemoryLimits requires every container in the seed to have a memory limit, which the
// VerticalPodAutoscaler neither changes nor exceeds: a provider cluster must not fill a node of the seed.
func TestSeedChart_MemoryLimits(t *testing.T) {
	t.Parallel()

	objects := render(t, newControlPlane(), newCluster(), "1.34.2")

	for _, name := range []string{kubevirt.CloudControllerManagerName, kubevirt.CSIControllerName, kubevirt.CSISnapshotControllerName} {
		policies := map[string]vpaautoscalingv1.ContainerResourcePolicy{}
		for _, policy := range one[*vpaautoscalingv1.VerticalPodAutoscaler](t, objects, name+"-vpa").Spec.ResourcePolicy.ContainerPolicies {
			policies[policy.ContainerName] = policy
		}

		containers := one[*appsv1.Deployment](t, objects, name).Spec.Template.Spec.Containers
		require.Len(t, policies, len(containers))

		for _, c := range containers {
			limit := c.Resources.Limits[corev1.ResourceMemory]
			require.Positive(t, limit.Value(), c.Name)
			require.Negative(t, c.Resources.Requests.Memory().Cmp(limit), c.Name)

			policy := policies[c.Name]
			require.Equal(t, vpaautoscalingv1.ContainerControlledValuesRequestsOnly, *policy.ControlledValues, c.Name)
			require.Zero(t, policy.MaxAllowed.Memory().Cmp(limit), c.Name)
			require.True(t, strings.HasPrefix(c.Env[0].Name, "GOMEMLIMIT"), c.Name)
		}
	}
}

// TestSeedChart_Proxy requires that only the proxy has the credentials for the provider cluster, and that the CSI driver
// reaches the proxy without any. cloud-controller-manager bounds its responses itself.
func TestSeedChart_Proxy(t *testing.T) {
	t.Parallel()

	objects := render(t, newControlPlane(), newCluster(), "1.34.2")

	config, err := clientcmd.Load([]byte(one[*corev1.ConfigMap](t, objects, "provider-proxy").Data["kubeconfig"]))
	require.NoError(t, err)

	auth := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	require.Equal(t, &clientcmdapi.AuthInfo{Extensions: auth.Extensions}, auth)

	pod := one[*appsv1.Deployment](t, objects, kubevirt.CSIControllerName).Spec.Template.Spec
	require.False(t, pod.HostNetwork, "the loopback interface would be that of the node")
	require.Equal(t, []string{"kubevirt-provider-proxy " + mount.Path}, mounting(pod))

	proxy := pod.Containers[len(pod.Containers)-1]
	require.Contains(t, proxy.Command, "--port="+config.Clusters["proxy"].Server[len("http://127.0.0.1:"):])
	require.Contains(t, proxy.Image, "gardener-extension-provider-kubevirt:v")
	require.True(t, *proxy.SecurityContext.ReadOnlyRootFilesystem)
	require.True(t, *proxy.SecurityContext.RunAsNonRoot)
	require.NotNil(t, proxy.ReadinessProbe)

	csi := pod.Containers[0]
	require.Contains(t, csi.VolumeMounts, corev1.VolumeMount{Name: "provider-proxy", MountPath: proxyMountPath, ReadOnly: true})
	require.Contains(t, csi.Args, "--infra-cluster-kubeconfig="+proxyMountPath+"/kubeconfig")

	pod = one[*appsv1.Deployment](t, objects, kubevirt.CloudControllerManagerName).Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	require.Nil(t, pod.Affinity, "its image has all architectures")
	require.Equal(t, []string{"kubevirt-cloud-controller-manager " + mount.Path}, mounting(pod))
	require.Equal(t, proxy.Image, pod.Containers[0].Image)
	require.NotNil(t, pod.Containers[0].ReadinessProbe)

	cloud, err := cloudprovider.ReadConfig([]byte(one[*corev1.ConfigMap](t, objects, "cloud-provider-config").Data["cloud-config"]))
	require.NoError(t, err)
	require.Equal(t, mount.Path+"/kubeconfig", cloud.Kubeconfig)
}

// mounting returns the containers of a pod that have the credentials for the provider cluster, and the folders.
func mounting(pod corev1.PodSpec) (all []string) {
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if m.Name == "provider" {
				all = append(all, c.Name+" "+m.MountPath)
			}
		}
	}

	return all
}

// TestSeedChart_ReachesShootOfSameSeed requires the programs to reach a provider cluster that is a
// shoot of the same seed.
func TestSeedChart_ReachesShootOfSameSeed(t *testing.T) {
	t.Parallel()

	objects := render(t, newControlPlane(), newCluster(), "1.34.2")

	for name, reaches := range map[string]bool{
		kubevirt.CloudControllerManagerName: true, kubevirt.CSIControllerName: true, kubevirt.CSISnapshotControllerName: false,
	} {
		require.Equal(t, reaches, networkpolicy.ReachesIstio(t, &one[*appsv1.Deployment](t, objects, name).Spec.Template), name)
	}
}
