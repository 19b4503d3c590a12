// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is the webhook for the control planes of shoots: it adds the driver's
// container to machine-controller-manager, and makes kube-controller-manager and kubelet use an
// external cloud provider. The API server of the seed calls it for objects that gardenlet writes.
// It must not call a provider cluster.
package controlplane

import (
	"context"
	"fmt"

	"github.com/Masterminds/semver/v3"
	"github.com/coreos/go-systemd/v22/unit"
	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	"github.com/gardener/gardener/extensions/pkg/webhook/controlplane"
	"github.com/gardener/gardener/extensions/pkg/webhook/controlplane/genericmutator"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/original/components/kubelet"
	oscutils "github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/utils"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// New creates the webhook. allowInternalServers is the flag of the driver's container: see
// kubevirt.ServerOptions.
func New(mgr manager.Manager, allowInternalServers bool) (*extensionswebhook.Webhook, error) {
	codec := oscutils.NewFileContentInlineCodec()
	log := mgr.GetLogger().WithName("controlplane-webhook")

	return controlplane.New(mgr, controlplane.Args{
		Kind:     controlplane.KindShoot,
		Provider: kubevirt.Type,
		Types: []extensionswebhook.Type{
			{Obj: &appsv1.Deployment{}},
			{Obj: &vpaautoscalingv1.VerticalPodAutoscaler{}},
			{Obj: &extensionsv1alpha1.OperatingSystemConfig{}},
		},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1constants.LabelExtensionProviderMutatedByControlplaneWebhook: "true"}},
		Mutator:        genericmutator.NewMutator(mgr, &ensurer{seed: mgr.GetAPIReader(), allowInternalServers: allowInternalServers}, oscutils.NewUnitSerializer(), kubelet.NewConfigCodec(codec), codec, log),
	})
}

// ensurer changes the objects.
type ensurer struct {
	genericmutator.NoopEnsurer

	// seed reads without a cache: after a restoration, machines would wait for a driver whose flag is missing.
	seed                 client.Reader
	allowInternalServers bool
}

// labelToIstio is the label of pods that reach shoots of their own seed: the provider cluster may be one.
// gardener-resource-manager makes a NetworkPolicy for it.
const labelToIstio = "networking.resources.gardener.cloud/to-all-istio-ingresses-istio-ingressgateway-tcp-9443"

// EnsureMachineControllerManagerDeployment implements genericmutator.Ensurer: it adds the driver's
// container, and the label with which it reaches the provider cluster.
func (e *ensurer) EnsureMachineControllerManagerDeployment(ctx context.Context, gctx gcontext.GardenContext, deployment, _ *appsv1.Deployment) error {
	image, err := imagevector.ImageVector().FindImage(imagevector.MachineControllerManagerProviderKubeVirt)
	if err != nil {
		return err
	}

	cluster, err := gctx.GetCluster(ctx)
	if err != nil {
		return fmt.Errorf("get Cluster: %w", err)
	}

	container, err := sidecar(machinecontrollermanager.ProviderSidecarContainer(cluster.Shoot, deployment.Namespace, kubevirt.Name, image.String()))
	if err != nil {
		return err
	}

	if e.allowInternalServers {
		container.Args = extensionswebhook.EnsureStringWithPrefix(container.Args, "--"+kubevirt.FlagAllowInternalServers+"=", "true")
	}

	evacuates, err := e.evacuates(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: cluster.Shoot.Name})
	if err != nil {
		return err
	}

	if evacuates {
		container.Args = extensionswebhook.EnsureStringWithPrefix(container.Args, "--"+kubevirt.FlagEvacuation+"=", "true")
	}

	spec := &deployment.Spec.Template.Spec
	spec.Containers = extensionswebhook.EnsureContainerWithName(spec.Containers, container)
	metav1.SetMetaDataLabel(&deployment.Spec.Template.ObjectMeta, labelToIstio, v1beta1constants.LabelNetworkPolicyAllowed)

	return nil
}

// evacuates reports whether the account of a shoot has the permissions to evacuate machines, by the status of its
// Infrastructure: without them, drains of provider nodes would wait forever. gardenlet creates the Infrastructure before
// the Deployment.
func (e *ensurer) evacuates(ctx context.Context, key client.ObjectKey) (bool, error) {
	infra := &extensionsv1alpha1.Infrastructure{}
	if err := e.seed.Get(ctx, key, infra); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return false, fmt.Errorf("get Infrastructure %s: %w", key, err)
	}

	status := &api.InfrastructureStatus{}
	_ = api.Decode(infra.Status.ProviderStatus, nil, status) // A newer version may have written other fields.

	return status.Evacuation, nil
}

// EnsureMachineControllerManagerVPA implements genericmutator.Ensurer: it adds the policy of the
// driver's container.
func (*ensurer) EnsureMachineControllerManagerVPA(_ context.Context, _ gcontext.GardenContext, vpa, _ *vpaautoscalingv1.VerticalPodAutoscaler) error {
	if vpa.Spec.ResourcePolicy == nil {
		vpa.Spec.ResourcePolicy = &vpaautoscalingv1.PodResourcePolicy{}
	}

	policies := &vpa.Spec.ResourcePolicy.ContainerPolicies
	*policies = extensionswebhook.EnsureVPAContainerResourcePolicyWithName(*policies, machinecontrollermanager.ProviderSidecarVPAContainerPolicy(kubevirt.Name))

	return nil
}

// cloudProvider is the flag of kube-controller-manager and kubelet.
const cloudProvider = "--cloud-provider="

// EnsureKubeControllerManagerDeployment implements genericmutator.Ensurer.
func (*ensurer) EnsureKubeControllerManagerDeployment(_ context.Context, _ gcontext.GardenContext, deployment, _ *appsv1.Deployment) error {
	if c := extensionswebhook.ContainerWithName(deployment.Spec.Template.Spec.Containers, "kube-controller-manager"); c != nil {
		c.Command = extensionswebhook.EnsureStringWithPrefix(c.Command, cloudProvider, "external")
	}

	return nil
}

// EnsureKubeletServiceUnitOptions implements genericmutator.Ensurer.
func (*ensurer) EnsureKubeletServiceUnitOptions(
	_ context.Context, _ gcontext.GardenContext, _ *semver.Version, options, _ []*unit.UnitOption,
) ([]*unit.UnitOption, error) {
	if start := extensionswebhook.UnitOptionWithSectionAndName(options, "Service", "ExecStart"); start != nil {
		command := extensionswebhook.EnsureStringWithPrefix(extensionswebhook.DeserializeCommandLine(start.Value), cloudProvider, "external")
		start.Value = extensionswebhook.SerializeCommandLine(command, 1, " \\\n    ")
	}

	return options, nil
}
