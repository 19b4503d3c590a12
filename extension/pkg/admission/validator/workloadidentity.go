// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// workloadIdentityValidator validates WorkloadIdentities whose tokens a provider cluster accepts. Whether it
// accepts them is reported by the Infrastructure: its API server knows its issuers and audiences.
type workloadIdentityValidator struct {
	allowInternalServers bool
	identities           *kubevirt.IdentityOptions
}

var _ extensionswebhook.Validator = (*workloadIdentityValidator)(nil)

// Validate implements extensionswebhook.Validator.
func (v *workloadIdentityValidator) Validate(_ context.Context, newObj, oldObj client.Object) error {
	identity, ok := newObj.(*securityv1alpha1.WorkloadIdentity)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	oldIdentity, _ := oldObj.(*securityv1alpha1.WorkloadIdentity)
	if identity.DeletionTimestamp != nil ||
		oldIdentity != nil && equalJSON(identity.Spec.TargetSystem.ProviderConfig, oldIdentity.Spec.TargetSystem.ProviderConfig) {
		return nil
	}

	return first(v.validateConfig(identity, oldIdentity)).ToAggregate()
}

func (v *workloadIdentityValidator) validateConfig(identity, oldIdentity *securityv1alpha1.WorkloadIdentity) field.ErrorList {
	path := field.NewPath("spec", "targetSystem", "providerConfig")

	raw := identity.Spec.TargetSystem.ProviderConfig
	if raw == nil || len(raw.Raw) == 0 {
		return field.ErrorList{field.Required(path, "add a WorkloadIdentityConfig with the server and the namespace of the machines")}
	}

	config := &api.WorkloadIdentityConfig{}
	if errs := api.Decode(raw, path, config); len(errs) > 0 {
		return errs
	}

	errs := validation.ValidateWorkloadIdentityConfig(config, v.allowInternalServers, v.identities.Allows, path)

	oldConfig := &api.WorkloadIdentityConfig{}
	if oldIdentity == nil || len(api.Decode(oldIdentity.Spec.TargetSystem.ProviderConfig, path, oldConfig)) > 0 {
		return errs
	}

	return append(errs, validation.ValidateWorkloadIdentityConfigUpdate(config, oldConfig, path)...)
}
