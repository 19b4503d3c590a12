// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass

import (
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// Errors returns the errors of a class outside its providerSpec and its nodeTemplate, which make
// every call fail: another provider, and references to Secrets that machine-controller-manager
// cannot resolve.
func Errors(class *v1alpha1.MachineClass) field.ErrorList {
	var errs field.ErrorList

	if !IsOurs(class) {
		errs = append(errs, field.NotSupported(field.NewPath("provider"), class.Provider, []string{Provider}))
	}

	secret := field.NewPath("secretRef")
	credentials := field.NewPath("credentialsSecretRef")
	if class.SecretRef == nil && class.CredentialsSecretRef == nil {
		errs = append(errs, field.Required(secret, fmt.Sprintf("name the Secret with the keys %s and %s; either of them may be in that of %s",
			apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData, credentials)))
	}

	return append(errs, append(secretErrors(class.SecretRef, secret), secretErrors(class.CredentialsSecretRef, credentials)...)...)
}

func secretErrors(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the Secret"))
	}

	if ref != nil && ref.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "name the Secret's namespace, which has no default"))
	}

	return errs
}

// Warnings returns the deprecated values of a class outside its providerSpec.
func Warnings(class *v1alpha1.MachineClass) []apivalidation.Warning {
	if class.Provider != predecessorProvider {
		return nil
	}

	return []apivalidation.Warning{{Field: "provider", Detail: "is the name of the driver's predecessor, and deprecated; write " + Provider}}
}
