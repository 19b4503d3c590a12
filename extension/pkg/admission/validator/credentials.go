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

// moved returns an error if other credentials of a Shoot point to another namespace. Whether the server
// is that of the same cluster cannot be known: its address may change.
func (v *shootValidator) moved(ctx context.Context, s *shoot) (field.ErrorList, error) {
	binding, before := ptr.Deref(s.Spec.CredentialsBindingName, ""), ptr.Deref(s.before.Spec.CredentialsBindingName, "")
	if binding == before || binding == "" || before == "" || createsNamespace(s.Shoot) {
		return nil, nil
	}

	namespace, err := v.namespaceOf(ctx, client.ObjectKey{Namespace: s.Namespace, Name: binding})
	if err != nil {
		return nil, err
	}

	previous, err := v.namespaceOf(ctx, client.ObjectKey{Namespace: s.Namespace, Name: before})
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}

	if namespace == "" || previous == "" || namespace == previous {
		return nil, nil
	}

	return field.ErrorList{field.Forbidden(field.NewPath("spec", "credentialsBindingName"), fmt.Sprintf(
		"the kubeconfig of CredentialsBinding %s points to namespace %s, but the machines are in namespace %s, and cannot move; use credentials for this namespace",
		binding, namespace, previous))}, nil
}

// namespaceOf returns the namespace of the kubeconfig to which a CredentialsBinding refers; empty if the
// kubeconfig is not valid.
func (v *shootValidator) namespaceOf(ctx context.Context, key client.ObjectKey) (string, error) {
	binding := &securityv1alpha1.CredentialsBinding{}
	secret := &corev1.Secret{}
	if err := v.garden.Get(ctx, key, binding); err != nil {
		return "", fmt.Errorf("spec.credentialsBindingName: get CredentialsBinding %s: %w", key, err)
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
