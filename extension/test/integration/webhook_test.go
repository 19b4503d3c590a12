// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestControlPlaneWebhook checks the admission of the control plane's objects: gardenlet's own, and
// those of components that the lab does not run.
func TestControlPlaneWebhook(t *testing.T) {
	t.Parallel()

	shoot := newShoot(t, named("webhook"))
	pool(shoot, 0).Minimum = 0
	require.NoError(t, shoot.Reconcile(t.Context()))

	vpa := &vpaautoscalingv1.VerticalPodAutoscaler{}
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: "machine-controller-manager-vpa"}, vpa))

	var containers []string
	for _, policy := range vpa.Spec.ResourcePolicy.ContainerPolicies {
		containers = append(containers, policy.ContainerName)
	}

	require.Contains(t, containers, "machine-controller-manager-provider-kubevirt")

	labels := map[string]string{v1beta1constants.LabelExtensionProviderMutatedByControlplaneWebhook: "true"}
	controllers := kubeControllerManager(shoot.Namespace, labels)
	require.NoError(t, theSeed.Client.Create(t.Context(), controllers))
	require.Contains(t, controllers.Spec.Template.Spec.Containers[0].Command, "--cloud-provider=external")

	system := operatingSystemConfig(shoot.Namespace, labels)
	require.NoError(t, theSeed.Client.Create(t.Context(), system))
	require.Contains(t, *system.Spec.Units[0].Content, "--cloud-provider=external")

	// Not the extension's: it leaves both.
	require.NoError(t, theSeed.Client.Delete(t.Context(), controllers))
	require.NoError(t, theSeed.Client.Delete(t.Context(), system))
	requireNothingLeft(t, shoot)
}

func kubeControllerManager(namespace string, labels map[string]string) *appsv1.Deployment {
	selector := map[string]string{"role": "controller-manager"}

	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1beta1constants.DeploymentNameKubeControllerManager, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "kube-controller-manager", Image: "kube-controller-manager", Command: []string{"/usr/local/bin/kube-controller-manager"}},
				}},
			},
		},
	}
}

func operatingSystemConfig(namespace string, labels map[string]string) *extensionsv1alpha1.OperatingSystemConfig {
	return &extensionsv1alpha1.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pool", Labels: labels},
		Spec: extensionsv1alpha1.OperatingSystemConfigSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "ubuntu"},
			Purpose:     extensionsv1alpha1.OperatingSystemConfigPurposeReconcile,
			Units: []extensionsv1alpha1.Unit{{
				Name:    v1beta1constants.OperatingSystemConfigUnitNameKubeletService,
				Content: ptr.To("[Service]\nExecStart=/opt/bin/kubelet --config=/var/lib/kubelet/config\n"),
			}},
		},
	}
}
