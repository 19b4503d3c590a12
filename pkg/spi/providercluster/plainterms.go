package providercluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// expired is what is behind a 401. Gardener classifies errors by words such as the first one.
const expired = "Unauthorized: the token or client certificate in the kubeconfig has expired or was revoked"

// inPlainTerms returns an error whose text is fit for the shoot's status. What an API server says in a metav1.Status stays. The text
// of any other failure may quote bytes of an answer, which are those of a stranger or of a Secret; its kind is named instead.
func inPlainTerms(err error) error {
	switch _, answered := statusCode(err); {
	case apierrors.IsUnauthorized(err):
		return &refusal{text: expired, cause: err}
	case answered:
		return err
	case kubeconfigFaultOf(err) != "":
		return spi.WithRemedy(&spi.KubeconfigError{Err: &refusal{text: kindOf(err), cause: err}}, kubeconfigFaultOf(err))
	default:
		return &refusal{text: kindOf(err), cause: err}
	}
}

// kubeconfigFaultOf returns which fields of the kubeconfig are to be corrected for a request to reach the server; empty if the kubeconfig
// is not known to be at fault.
func kubeconfigFaultOf(err error) string {
	var (
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
	)

	switch {
	case errors.As(err, &lookup):
		return "correct the server in the kubeconfig, or repair name resolution"
	case errors.As(err, &certificate):
		return "correct server, certificate-authority-data and tls-server-name in the kubeconfig"
	case errors.As(err, &operation) && operation.Op == "remote error": // crypto/tls's name for the other side's alerts.
		return "correct the client certificate in the kubeconfig"
	default:
		return ""
	}
}

// kindOf names the kind of a failure that is no answer of an API server.
func kindOf(err error) string {
	var (
		number      syscall.Errno
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
		size        *http.MaxBytesError
		network     net.Error
	)

	switch {
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &lookup):
		return "the server's name cannot be resolved"
	case errors.As(err, &certificate):
		return "the server's certificate cannot be verified"
	case errors.As(err, &operation) && operation.Op == "remote error": // crypto/tls's name for the other side's alerts.
		return "the server refuses the TLS connection"
	case errors.As(err, &size):
		return "the answer is too large"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "the answer cannot be read; check that the server in the kubeconfig is a Kubernetes API server"
	}
}
