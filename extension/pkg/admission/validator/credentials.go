// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"

	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// validateCredentialsNamespace returns an error if other credentials of a Shoot point to another namespace. Whether the server
// is that of the same cluster cannot be known: its address may change.
func (v *shootValidator) validateCredentialsNamespace(ctx context.Context, c *validationContext) (field.ErrorList, error) {
	binding := ptr.Deref(c.Spec.CredentialsBindingName, "")
	oldBinding := ptr.Deref(c.old.Spec.CredentialsBindingName, "")
	if binding == oldBinding || binding == "" || oldBinding == "" || c.createsNamespace() {
		return nil, nil
	}

	namespace, err := v.namespaceOf(ctx, client.ObjectKey{Namespace: c.Namespace, Name: binding})
	if err != nil {
		return nil, err
	}

	oldNamespace, err := v.namespaceOf(ctx, client.ObjectKey{Namespace: c.Namespace, Name: oldBinding})
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}

	if namespace == "" || oldNamespace == "" || namespace == oldNamespace {
		return nil, nil
	}

	return field.ErrorList{field.Forbidden(field.NewPath("spec", "credentialsBindingName"), fmt.Sprintf(
		"the kubeconfig of CredentialsBinding %s points to namespace %s, but the machines are in namespace %s, and cannot move; use credentials for this namespace",
		binding, namespace, oldNamespace))}, nil
}

// namespaceOf returns the namespace of the kubeconfig to which a CredentialsBinding refers. It is empty if
// the kubeconfig is not valid, and for a WorkloadIdentity, which admission may not read: the Infrastructure
// reports another namespace.
func (v *shootValidator) namespaceOf(ctx context.Context, key client.ObjectKey) (string, error) {
	binding := &securityv1alpha1.CredentialsBinding{}
	secret := &corev1.Secret{}
	if err := v.garden.Get(ctx, key, binding); err != nil {
		return "", fmt.Errorf("spec.credentialsBindingName: get CredentialsBinding %s: %w", key, err)
	}

	if binding.CredentialsRef.Kind != secretKind {
		return "", nil
	}

	ref := client.ObjectKey{Namespace: binding.CredentialsRef.Namespace, Name: binding.CredentialsRef.Name}
	if err := v.garden.Get(ctx, ref, secret); err != nil {
		return "", fmt.Errorf("spec.credentialsBindingName: get Secret %s of CredentialsBinding %s: %w", ref, key, err)
	}

	_, namespace, err := kubeconfig.RESTConfig(kubeconfigOf(secret))
	if err != nil {
		return "", nil //nolint:nilerr // The secretValidator reports it.
	}

	return namespace, nil
}
