// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// remedied is an error whose text contains its remedy.
type remedied struct{ error }

// Unwrap returns the error that was returned to WithRemedy.
func (r *remedied) Unwrap() error { return errors.Unwrap(r.error) }

// WithRemedy adds the remedy to an error of the provider cluster's API.
func WithRemedy(err error) error {
	if r := (*remedied)(nil); errors.As(err, &r) {
		return err
	}

	remedy := "check its API server, the network between it and the seed, and the server and certificate authority in the kubeconfig"

	d := (*distrust)(nil)

	switch {
	case errors.As(err, &d):
		remedy = d.remedy()
	case apierrors.IsUnauthorized(err):
		remedy = "replace the credentials of the Shoot"
	case apierrors.IsForbidden(err):
		remedy = "grant the kubeconfig's user the permissions in extension/kubernetes/provider-namespace (namespace-per-shoot if namespace.create is set)"
	}

	return &remedied{fmt.Errorf("%w; %s", err, remedy)}
}

// Explain adds the remedy to errors of the credentials and of the connection. Other errors remain as they
// are, such as a refusal by a webhook or a quota.
func Explain(err error) error {
	if !errors.Is(err, ErrRequest) {
		return err
	}

	responded := apierrors.APIStatus(nil)
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is forbidden: User ") || !errors.As(err, &responded) {
		return WithRemedy(err)
	}

	return err
}

// IsFailure reports whether an error means that the credentials cannot be used, or that a request to the
// provider cluster failed. Other errors are those of the seed, and the extension's own, as ErrBusy.
func IsFailure(err error) bool {
	return errors.Is(err, ErrCredentials) || errors.Is(err, errNoToken) || errors.Is(err, ErrRequest) && !errors.Is(err, ErrBusy)
}
