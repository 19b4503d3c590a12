// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// isRecorded reports whether objects of the shoot may exist in the provider cluster.
func isRecorded(infra *extensionsv1alpha1.Infrastructure) bool {
	return infra.Status.ProviderStatus != nil
}

// recordedState returns the state with the types of the virtual networks that will be created; nil if it has them.
func (f *flow) recordedState() *api.InfrastructureState {
	types := f.virtualNetworks()
	if slices.Equal(types, f.state.VirtualNetworks) {
		return nil
	}

	f.state.TypeMeta = api.TypeMeta("InfrastructureState")
	f.state.VirtualNetworks = types

	return f.state.DeepCopy()
}

// recordWrite records that objects may exist in a namespace of the provider cluster, which is empty if it is
// not known. state is another state with the types of the objects; nil if it is the same.
func (a *actuator) recordWrite(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, namespace string, state *api.InfrastructureState) error {
	if isRecorded(infra) && state == nil {
		return nil
	}

	before := infra.DeepCopy()

	if !isRecorded(infra) {
		infra.Status.ProviderStatus = &runtime.RawExtension{Object: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Namespace: namespace}}
	}

	if state != nil {
		infra.Status.State = &runtime.RawExtension{Object: state}
	}

	return wrap(a.seed.Status().Patch(ctx, infra, client.MergeFrom(before)), "record that objects may exist in the provider cluster")
}

// updateStatus writes the status, if it differs.
func (a *actuator) updateStatus(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, f *flow, shoot *gardencorev1beta1.Networking,
	status *api.InfrastructureStatus, state *api.InfrastructureState,
) error {
	networking := networkingOf(&f.config, shoot)

	if !f.unreadable && equality.Semantic.DeepEqual(&f.status, status) && equality.Semantic.DeepEqual(&f.state, state) &&
		equality.Semantic.DeepEqual(infra.Status.Networking, networking) {
		return nil
	}

	before := infra.DeepCopy()
	infra.Status.ProviderStatus = &runtime.RawExtension{Object: status}
	infra.Status.Networking = networking
	infra.Status.State = &runtime.RawExtension{Object: state}

	return a.seed.Status().Patch(ctx, infra, client.MergeFrom(before))
}

// networkingOf returns the networks of the shoot. The nodes' network is that of the default tenant
// network's subnets; without them, it is spec.networking.nodes of the Shoot.
func networkingOf(config *api.InfrastructureConfig, shoot *gardencorev1beta1.Networking) *extensionsv1alpha1.InfrastructureStatusNetworking {
	networking := &extensionsv1alpha1.InfrastructureStatusNetworking{Nodes: validation.DefaultSubnets(config)}
	if shoot == nil {
		return networking
	}

	if len(networking.Nodes) == 0 {
		networking.Nodes = oneOf(shoot.Nodes)
	}

	networking.Pods = oneOf(shoot.Pods)
	networking.Services = oneOf(shoot.Services)

	return networking
}

func oneOf(cidr *string) []string {
	if cidr == nil {
		return nil
	}

	return []string{*cidr}
}
