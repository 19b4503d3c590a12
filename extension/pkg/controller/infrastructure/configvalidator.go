// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"

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
	errs = append(errs, validation.ValidateInfrastructureConfig(config, configPath())...)

	errs = append(errs, validation.ValidateNetworking(cluster.Shoot.Spec.Networking, config, validation.PodNetworkOf(&config.Networks, nil))...)

	// Machines of an existing Infrastructure run.
	if infra.Status.ProviderStatus == nil {
		errs = append(errs, validation.ValidateNetworkCount(config, configPath())...)
	}

	return errs
}
