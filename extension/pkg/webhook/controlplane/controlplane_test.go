// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
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
		require.NoError(t, (&ensurer{seed: seedWith(t, nil)}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
		require.Len(t, d.Spec.Template.Spec.Containers, 2)
	}

	sidecar := d.Spec.Template.Spec.Containers[1]
	require.Equal(t, "machine-controller-manager-provider-kubevirt", sidecar.Name)
	require.Contains(t, sidecar.Image, "machine-controller-manager-provider-kubevirt:v")
	require.Contains(t, sidecar.Args, "--namespace="+namespace)
	require.Contains(t, sidecar.Args, "--allow-internal-provider-servers=false", "shoot owners choose the server")
	require.Equal(t, "96Mi", sidecar.Resources.Requests.Memory().String(), "Gardener's generic container requests too little")
	require.Equal(t, "512Mi", sidecar.Resources.Limits.Memory().String())
	require.True(t, *sidecar.SecurityContext.ReadOnlyRootFilesystem)
}

// TestEnsurer_AllowInternalServers passes the switch of the operator on to the driver.
func TestEnsurer_AllowInternalServers(t *testing.T) {
	t.Parallel()

	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: &gardencorev1beta1.Shoot{}})
	d := deployment()
	require.NoError(t, (&ensurer{seed: seedWith(t, nil), allowInternalServers: true}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
	require.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--allow-internal-provider-servers=true")
	require.NotContains(t, d.Spec.Template.Spec.Containers[0].Args, "--allow-internal-provider-servers=false")
}

// seedWith returns a seed with the status of an Infrastructure; nil for a seed without one.
func seedWith(t *testing.T, status *api.InfrastructureStatus) client.Client {
	t.Helper()

	scheme := runtime.NewScheme()
	require.NoError(t, extensionsv1alpha1.AddToScheme(scheme))

	infra := &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "janedoe"}}
	if status == nil {
		return fake.NewClientBuilder().WithScheme(scheme).Build()
	}

	raw, err := json.Marshal(status)
	require.NoError(t, err)

	infra.Status.ProviderStatus = &runtime.RawExtension{Raw: raw}

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(infra).Build()
}

// TestEnsurer_Evacuation adds --evacuation for accounts with the permissions, and nothing for others: drains of provider
// nodes would wait forever.
func TestEnsurer_Evacuation(t *testing.T) {
	t.Parallel()

	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "janedoe"}}})

	for _, tc := range []struct {
		status *api.InfrastructureStatus
		want   bool
	}{
		{},
		{status: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus")}},
		{status: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Evacuation: true}, want: true},
	} {
		d := deployment()
		for range 2 {
			require.NoError(t, (&ensurer{seed: seedWith(t, tc.status)}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
		}

		args := d.Spec.Template.Spec.Containers[0].Args
		require.Equal(t, tc.want, slices.Contains(args, "--evacuation=true"), "%v", args)
	}
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
