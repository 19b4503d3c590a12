// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"bytes"
	"context"
	"fmt"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// secretValidator validates Secrets with credentials for a provider cluster. Its errors never quote a
// Secret.
type secretValidator struct {
	allowInternalServers bool
}

var _ extensionswebhook.Validator = (*secretValidator)(nil)

// Validate implements extensionswebhook.Validator.
func (v *secretValidator) Validate(_ context.Context, newObj, oldObj client.Object) error {
	secret, ok := newObj.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	oldSecret, _ := oldObj.(*corev1.Secret)
	if secret.DeletionTimestamp != nil || oldSecret != nil && bytes.Equal(kubeconfigOf(secret), kubeconfigOf(oldSecret)) {
		return nil
	}

	return v.validateCredentials(secret, oldSecret).ToAggregate()
}

func kubeconfigOf(secret *corev1.Secret) []byte { return secret.Data[providerspec.SecretKeyKubeconfig] }

// validateCredentials returns the errors of a Secret. oldSecret is the Secret before the change; nil for a new one.
func (v *secretValidator) validateCredentials(secret, oldSecret *corev1.Secret) field.ErrorList {
	path := field.NewPath("data").Key(providerspec.SecretKeyKubeconfig)

	raw := kubeconfigOf(secret)
	if len(raw) == 0 {
		return field.ErrorList{field.Required(path, "set the kubeconfig of an account of the provider cluster")}
	}

	config, namespace, err := kubeconfig.RESTConfig(raw)
	if err == nil && !v.allowInternalServers {
		err = kubeconfig.CheckInternalServer(config.Host)
	}

	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}

	if oldSecret == nil {
		return nil
	}

	if _, oldNamespace, err := kubeconfig.RESTConfig(kubeconfigOf(oldSecret)); err == nil && oldNamespace != namespace {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"the namespace of the current context must remain %s: machines cannot move to another namespace; create another Secret for new Shoots", oldNamespace))}
	}

	return nil
}
