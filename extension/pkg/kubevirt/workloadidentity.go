// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	securityv1alpha1constants "github.com/gardener/gardener/pkg/apis/security/v1alpha1/constants"
	corev1 "k8s.io/api/core/v1"
)

// IsWorkloadIdentity reports whether a Secret in the seed has the credentials of a WorkloadIdentity for this
// provider, in which gardenlet renews the token.
func IsWorkloadIdentity(secret *corev1.Secret) bool {
	return secret.Labels[securityv1alpha1constants.LabelPurpose] == securityv1alpha1constants.LabelPurposeWorkloadIdentityTokenRequestor &&
		secret.Labels[securityv1alpha1constants.LabelWorkloadIdentityProvider] == Type
}
