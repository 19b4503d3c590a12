// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

const namespace = "shoot--garden-dev--johndoe"

func deployment(containers ...corev1.Container) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	d.Spec.Template.Spec.Containers = containers

	return d
}

// TestSidecar adds the driver to machine-controller-manager, once.
func TestSidecar(t *testing.T) {
	t.Parallel()

	shoot := &gardencorev1beta1.Shoot{}
	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: shoot})
	d := deployment(corev1.Container{Name: "machine-controller-manager"})

	for range 2 {
		require.NoError(t, (&ensurer{}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
		require.Len(t, d.Spec.Template.Spec.Containers, 2)
	}

	sidecar := d.Spec.Template.Spec.Containers[1]
	require.Equal(t, "machine-controller-manager-provider-kubevirt", sidecar.Name)
	require.Contains(t, sidecar.Image, "machine-controller-manager-provider-kubevirt:v")
	require.Contains(t, sidecar.Args, "--namespace="+namespace)
	require.Contains(t, sidecar.Args, "--allow-internal-provider-servers=false", "shoot owners choose the server")
	require.Equal(t, "96Mi", sidecar.Resources.Requests.Memory().String(), "Gardener's generic container requests too little")
	require.Equal(t, "256Mi", sidecar.Resources.Limits.Memory().String())
	require.True(t, *sidecar.SecurityContext.ReadOnlyRootFilesystem)
}

// TestEnsurer_AllowInternalServers passes the switch of the operator on to the driver.
func TestEnsurer_AllowInternalServers(t *testing.T) {
	t.Parallel()

	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: &gardencorev1beta1.Shoot{}})
	d := deployment()
	require.NoError(t, (&ensurer{allowInternalServers: true}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
	require.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--allow-internal-provider-servers=true")
	require.NotContains(t, d.Spec.Template.Spec.Containers[0].Args, "--allow-internal-provider-servers=false")
}

// TestShippedSidecar_EqualsGardenerContainer compares the shipped container with Gardener's generic one: operators
// of other extensions use the manifest as it is.
func TestShippedSidecar_EqualsGardenerContainer(t *testing.T) {
	t.Parallel()

	generic := machinecontrollermanager.ProviderSidecarContainer(&gardencorev1beta1.Shoot{}, "$(NAMESPACE)", kubevirt.Name, "image")
	shipped, err := shippedSidecar()
	require.NoError(t, err)

	require.Equal(t, generic.Name, shipped.Name)
	require.ElementsMatch(t, append(generic.Args, "--allow-internal-provider-servers=false"), shipped.Args)
	require.Equal(t, generic.Ports, shipped.Ports)
	require.Equal(t, generic.VolumeMounts, shipped.VolumeMounts)
	require.Equal(t, generic.LivenessProbe.HTTPGet, shipped.LivenessProbe.HTTPGet)
}

func TestEnsureMachineControllerManagerVPA(t *testing.T) {
	t.Parallel()

	vpa := &vpaautoscalingv1.VerticalPodAutoscaler{}
	for range 2 {
		require.NoError(t, (&ensurer{}).EnsureMachineControllerManagerVPA(t.Context(), nil, vpa, nil))
		require.Len(t, vpa.Spec.ResourcePolicy.ContainerPolicies, 1)
	}

	require.Equal(t, "machine-controller-manager-provider-kubevirt", vpa.Spec.ResourcePolicy.ContainerPolicies[0].ContainerName)
}

func TestExternalCloudProvider(t *testing.T) {
	t.Parallel()

	d := deployment(corev1.Container{Name: "kube-controller-manager", Command: []string{"kube-controller-manager", "--cloud-provider=gce"}})
	require.NoError(t, (&ensurer{}).EnsureKubeControllerManagerDeployment(t.Context(), nil, d, nil))
	require.Equal(t, []string{"kube-controller-manager", "--cloud-provider=external"}, d.Spec.Template.Spec.Containers[0].Command)

	options := []*unit.UnitOption{{Section: "Service", Name: "ExecStart", Value: "/opt/bin/kubelet \\\n    --config=/var/lib/kubelet/config"}}
	options, err := (&ensurer{}).EnsureKubeletServiceUnitOptions(t.Context(), nil, nil, options, nil)
	require.NoError(t, err)

	arguments := strings.Fields(strings.ReplaceAll(options[0].Value, "\\\n", " "))
	require.Equal(t, []string{"/opt/bin/kubelet", "--config=/var/lib/kubelet/config", "--cloud-provider=external"}, slices.DeleteFunc(arguments, func(a string) bool { return a == "" }))
}
