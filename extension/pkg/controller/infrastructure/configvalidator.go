package infrastructure

import (
	"context"
	"fmt"
	"net/netip"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// configValidator validates the InfrastructureConfig. Gardener does not retry after its errors: what
// depends on the provider cluster is checked by the actuator, see check.go.
type configValidator struct {
	seed client.Client
}

// Validate implements infrastructure.ConfigValidator.
func (v *configValidator) Validate(ctx context.Context, infra *extensionsv1alpha1.Infrastructure) field.ErrorList {
	cluster, err := extensionscontroller.GetCluster(ctx, v.seed, infra.Namespace)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("get Cluster %s: %w", infra.Namespace, err))}
	}

	config := &api.InfrastructureConfig{}

	errs := api.Decode(infra.Spec.ProviderConfig, configPath(), config)
	errs = append(errs, validation.InfrastructureConfig(config, configPath())...)

	return append(errs, nodesNetwork(infra, cluster)...)
}

// nodesNetwork compares the Shoot's node network with the subnets of the default network: the routes
// of the VPN to the nodes depend on it.
func nodesNetwork(infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) field.ErrorList {
	networking := cluster.Shoot.Spec.Networking
	if networking == nil || networking.Nodes == nil {
		return nil
	}

	nodes, err := netip.ParsePrefix(*networking.Nodes)
	if err != nil {
		return nil // Gardener validates it.
	}

	var errs field.ErrorList

	for _, subnet := range defaultSubnets(infra) {
		if prefix, err := netip.ParsePrefix(subnet); err == nil && prefix.Addr().Is4() == nodes.Addr().Is4() &&
			(!nodes.Contains(prefix.Addr()) || nodes.Bits() > prefix.Bits()) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "networking", "nodes"), nodes.String(),
				fmt.Sprintf("must contain the subnet %s of the default network in infrastructureConfig.networks.tenantNetworks", subnet)))
		}
	}

	return errs
}
