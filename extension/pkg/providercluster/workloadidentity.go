// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"fmt"
	"time"

	securityv1alpha1constants "github.com/gardener/gardener/pkg/apis/security/v1alpha1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// errNoToken has no code: gardenlet retries.
var errNoToken = errors.New("the token of the WorkloadIdentity has not been requested yet; gardenlet requests it within seconds: if this remains, check its log, and that the garden has an issuer")

// checkToken returns an error if gardenlet has not requested the token of a WorkloadIdentity yet.
func checkToken(secret *corev1.Secret) error {
	if kubevirt.IsWorkloadIdentity(secret) && len(secret.Data[securityv1alpha1constants.DataKeyToken]) == 0 {
		return errNoToken
	}

	return nil
}

// distrust is the error of a provider cluster that does not accept the token of a WorkloadIdentity. Its
// response does not say why.
type distrust struct {
	cause error
	// text describes the token.
	text string
	// expired is set if the token is not valid any more.
	expired bool
}

// Error implements error. Package errorcodes recognizes the text.
func (d *distrust) Error() string {
	return "it does not accept the token of the WorkloadIdentity, " + d.text
}

// Unwrap returns the response.
func (d *distrust) Unwrap() error { return d.cause }

// remedy returns what makes the provider cluster accept the token.
func (d *distrust) remedy() string {
	if d.expired {
		return "check the log of gardenlet, which renews it"
	}

	return "let the AuthenticationConfiguration of its API server trust this issuer for one of these audiences, and check that it reaches the issuer's keys"
}

// workloadToken is the token of a WorkloadIdentity; empty for other credentials.
type workloadToken string

func tokenOf(secret *corev1.Secret) workloadToken {
	if !kubevirt.IsWorkloadIdentity(secret) {
		return ""
	}

	return workloadToken(secret.Data[securityv1alpha1constants.DataKeyToken])
}

// maxAudiences bounds the audiences in an error, which becomes part of the Shoot's status, and maxClaim the
// length of each of them and of the issuer.
const maxAudiences, maxClaim = 5, 256

// explain describes the token if it is the reason of an error.
func (t workloadToken) explain(err error) error {
	if t == "" || !apierrors.IsUnauthorized(err) {
		return err
	}

	issuer, audiences := kubeconfig.Trust(string(t))
	audiences = audiences[:min(len(audiences), maxAudiences)]

	for i, a := range audiences {
		audiences[i] = a[:min(len(a), maxClaim)]
	}

	d := &distrust{cause: err, text: fmt.Sprintf("which is of the issuer %q for the audiences %q", issuer[:min(len(issuer), maxClaim)], audiences)}

	for _, e := range kubeconfig.ExpiriesOf(&rest.Config{BearerToken: string(t)}) {
		if e.End.Before(time.Now()) {
			d.text += " and expired at " + e.End.UTC().Format(time.RFC3339)
			d.expired = true
		}
	}

	return d
}
