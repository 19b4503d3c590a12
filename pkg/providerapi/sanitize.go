// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// expired explains a 401. Gardener classifies errors by keywords such as Unauthorized.
const expired = "Unauthorized: the token or client certificate in the kubeconfig has expired or was revoked"

// sanitized returns a request's error without its kind, in a form that is safe for the shoot's status. The
// message of a metav1.Status is kept. The text of any other failure may quote bytes of an untrusted
// response or of a Secret, so it is replaced with the kind of failure.
func sanitized(err error) *spi.Error {
	e := &spi.Error{Cause: err}

	excess := excessOf(err)

	switch _, answered := statusCode(err); {
	case apierrors.IsUnauthorized(err):
		e.Message = expired
	case answered:
		e.Message = messageOf(err)
		transport.Shorten(&e.Message) // A metav1.Status in a successful response may be long.
	case excess != "":
		e.Message = excess
		e.Remedy = "check which server responds in place of the API server"
	default:
		e.Message = transport.Failure(err)
		e.Remedy = kubeconfigFaultOf(err)
		e.Kubeconfig = e.Remedy != ""
	}

	return e
}

// messageOf returns the message of an API server's response, or describes a response without one.
func messageOf(err error) string {
	if message := err.Error(); strings.TrimSpace(message) != "" {
		return message
	}

	code, _ := statusCode(err)

	return strings.TrimSpace(fmt.Sprintf("the server responded without a message: %d %s", code, http.StatusText(int(code))))
}

// kubeconfigFaultOf names the kubeconfig fields to correct so that requests reach the server; empty
// if the kubeconfig is not known to be at fault.
func kubeconfigFaultOf(err error) string {
	var (
		internal    *kubeconfig.InternalServerError
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
	)

	switch {
	case errors.As(err, &internal):
		return "correct the kubeconfig"
	case errors.As(err, &lookup):
		return "correct the server in the kubeconfig, or repair name resolution"
	case errors.As(err, &certificate):
		return "correct server, certificate-authority-data and tls-server-name in the kubeconfig"
	case errors.As(err, &operation) && operation.Op == "remote error": // crypto/tls's name for alerts of the peer.
		return "correct the client certificate in the kubeconfig"
	default:
		return ""
	}
}

// excessOf names the bound that a response or a list exceeds; empty if it exceeds none.
func excessOf(err error) string {
	if errors.Is(err, ErrListTooLarge) || errors.Is(err, pages.ErrIdentity) {
		return err.Error()
	}

	excess, _ := transport.ExceededBound(err)

	return excess
}
