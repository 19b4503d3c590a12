// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"
	"slices"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bindingValidator validates new CredentialsBindings; Gardener does not allow to change their
// credentials. The content of the credentials needs no rule here: WorkloadIdentities are validated
// themselves, and gardener-apiserver lets the secretValidator validate a Secret before it accepts a
// CredentialsBinding or SecretBinding (plugin/pkg/global/resourcereferencemanager).
type bindingValidator struct{}

var _ extensionswebhook.Validator = (*bindingValidator)(nil)

// Validate implements extensionswebhook.Validator.
func (*bindingValidator) Validate(_ context.Context, newObj, oldObj client.Object) error {
	binding, ok := newObj.(*securityv1alpha1.CredentialsBinding)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	if ref := binding.CredentialsRef; oldObj == nil && !slices.Contains(credentialsKinds, ref.Kind) {
		return field.NotSupported(field.NewPath("credentialsRef", "kind"), ref.Kind, credentialsKinds)
	}

	return nil
}

const (
	secretKind           = "Secret"
	workloadIdentityKind = "WorkloadIdentity"
)

var credentialsKinds = []string{secretKind, workloadIdentityKind}
