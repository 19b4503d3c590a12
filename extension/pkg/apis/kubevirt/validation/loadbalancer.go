// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider/annotations"
)

// ValidateOfferedLoadBalancer returns the errors of CloudProfileConfig.loadBalancer.
func ValidateOfferedLoadBalancer(offered *api.OfferedLoadBalancer, path *field.Path) field.ErrorList {
	if offered == nil {
		return nil
	}

	errs := annotations.Validate(offered.AllowedAnnotations, path.Child("allowedAnnotations"))

	if offered.Class != "" {
		for _, reason := range validation.IsQualifiedName(offered.Class) {
			errs = append(errs, field.Invalid(path.Child("class"), offered.Class, reason))
		}
	}

	return errs
}

// ValidateLoadBalancer returns the errors of ControlPlaneConfig.loadBalancer, with what the CloudProfile offers.
func ValidateLoadBalancer(config *api.LoadBalancerConfig, offered *api.OfferedLoadBalancer, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}

	path = path.Child("allowedAnnotations")

	errs := annotations.Validate(config.AllowedAnnotations, path)
	if len(errs) > 0 {
		return errs
	}

	for i, pattern := range config.AllowedAnnotations {
		if offered == nil || !annotations.Allows(offered.AllowedAnnotations, pattern) {
			errs = append(errs, field.Forbidden(path.Index(i),
				"the CloudProfile does not allow this annotation; use one of its providerConfig.loadBalancer.allowedAnnotations, or ask the operator to add it"))
		}
	}

	return errs
}

// AllowedAnnotations returns the annotations that Services of a shoot pass on to their load balancers: never more than
// the CloudProfile allows.
func AllowedAnnotations(config *api.LoadBalancerConfig, offered *api.OfferedLoadBalancer) []string {
	if offered == nil {
		return nil
	}

	if config == nil || config.AllowedAnnotations == nil {
		return offered.AllowedAnnotations
	}

	var allowed []string

	for _, pattern := range config.AllowedAnnotations {
		if annotations.Allows(offered.AllowedAnnotations, pattern) {
			allowed = append(allowed, pattern)
		}
	}

	return allowed
}
