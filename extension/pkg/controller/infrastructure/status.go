package infrastructure

import (
	"context"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// isRecorded reports whether objects of the shoot may exist in the provider cluster.
func isRecorded(infra *extensionsv1alpha1.Infrastructure) bool {
	return infra.Status.ProviderStatus != nil
}

// recordWrite records that objects may exist in a namespace of the provider cluster, which is empty if it is
// not known.
func (a *actuator) recordWrite(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, namespace string) error {
	if isRecorded(infra) {
		return nil
	}

	before := infra.DeepCopy()
	infra.Status.ProviderStatus = &runtime.RawExtension{Object: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Namespace: namespace}}

	return wrap(a.seed.Status().Patch(ctx, infra, client.MergeFrom(before)), "record that objects may exist in the provider cluster")
}

// updateStatus writes the status, if it differs.
func (a *actuator) updateStatus(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
	wanted *api.InfrastructureStatus, wantedState *api.InfrastructureState,
) error {
	existing := &api.InfrastructureStatus{}
	existingState := &api.InfrastructureState{}
	unreadable := append(api.Decode(infra.Status.ProviderStatus, field.NewPath("status", "providerStatus"), existing),
		api.Decode(infra.Status.State, field.NewPath("status", "state"), existingState)...)
	networking := networkingOf(infra, cluster)

	if len(unreadable) == 0 && equality.Semantic.DeepEqual(existing, wanted) && equality.Semantic.DeepEqual(existingState, wantedState) &&
		equality.Semantic.DeepEqual(infra.Status.Networking, networking) {
		return nil
	}

	before := infra.DeepCopy()
	infra.Status.ProviderStatus = &runtime.RawExtension{Object: wanted}
	infra.Status.Networking = networking
	infra.Status.State = &runtime.RawExtension{Object: wantedState}

	return a.seed.Status().Patch(ctx, infra, client.MergeFrom(before))
}

// networkingOf returns the networks of the shoot. The nodes' network is that of the default tenant
// network's subnets; without them, it is spec.networking.nodes of the Shoot.
func networkingOf(infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) *extensionsv1alpha1.InfrastructureStatusNetworking {
	networking := &extensionsv1alpha1.InfrastructureStatusNetworking{Nodes: defaultSubnets(infra)}

	given := cluster.Shoot.Spec.Networking
	if given == nil {
		return networking
	}

	if len(networking.Nodes) == 0 {
		networking.Nodes = oneOf(given.Nodes)
	}

	networking.Pods = oneOf(given.Pods)
	networking.Services = oneOf(given.Services)

	return networking
}

func oneOf(cidr *string) []string {
	if cidr == nil {
		return nil
	}

	return []string{*cidr}
}

// defaultSubnets returns the subnets of the default tenant network; nil if there is none.
func defaultSubnets(infra *extensionsv1alpha1.Infrastructure) []string {
	config := &api.InfrastructureConfig{}
	_ = api.Decode(infra.Spec.ProviderConfig, configPath(), config) // Reconcile reports errors.

	return validation.DefaultSubnets(config)
}
