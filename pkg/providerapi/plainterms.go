package providerapi

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

// expired explains a 401. Gardener classifies errors by words such as the first one.
const expired = "Unauthorized: the token or client certificate in the kubeconfig has expired or was revoked"

// PlainTerms returns an error whose text is safe for the shoot's status. The message of a
// metav1.Status is kept. The text of any other failure may quote bytes of an untrusted response or
// of a Secret, so it is replaced with the kind of failure.
func PlainTerms(err error) error {
	switch _, answered := statusCode(err); {
	case apierrors.IsUnauthorized(err):
		return &plainError{text: expired, cause: err}
	case answered:
		return shortStatus(err)
	case tooLarge(err) || errors.Is(err, ErrEndless):
		return spi.WithRemedy(&plainError{text: kindOf(err), cause: err}, "check what answers in place of the API server")
	case kubeconfigFaultOf(err) != "":
		return spi.WithRemedy(&spi.KubeconfigError{Err: &plainError{text: kindOf(err), cause: err}}, kubeconfigFaultOf(err))
	default:
		return &plainError{text: kindOf(err), cause: err}
	}
}

// kubeconfigFaultOf names the kubeconfig fields to correct so that requests reach the server; empty
// if the kubeconfig is not known to be at fault.
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
	case errors.As(err, &operation) && operation.Op == "remote error": // crypto/tls's name for alerts of the peer.
		return "correct the client certificate in the kubeconfig"
	default:
		return ""
	}
}

// plainError replaces the text of its cause.
type plainError struct {
	text  string
	cause error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() error { return e.cause }

// shortStatus shortens an API server's message if it is longer than any real one: a metav1.Status
// may also come from a successful response, which may be long.
func shortStatus(err error) error {
	text := err.Error()
	if len(text) <= maxMessage {
		return err
	}

	shorten(&text)

	return &plainError{text: text, cause: err}
}

// tooLarge reports whether a response or a list exceeds a bound.
func tooLarge(err error) bool { return excessOf(err) != "" }

// excessOf names the bound that a response or a list exceeds; empty if it exceeds none.
func excessOf(err error) string {
	var size *http.MaxBytesError

	excess, exceeded := exceedsBounds(err)

	switch {
	case exceeded:
		return excess.Error()
	case errors.Is(err, ErrEndless):
		return err.Error()
	case errors.As(err, &size):
		return "the answer is too large"
	default:
		return ""
	}
}

// kindOf names the kind of a failure that is not a response of an API server.
func kindOf(err error) string {
	if tooLarge(err) {
		return excessOf(err)
	}

	return transportFailure(err)
}

func transportFailure(err error) string {
	var (
		number      syscall.Errno
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
		network     net.Error
	)

	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &lookup):
		return "the server's name cannot be resolved"
	case errors.As(err, &certificate):
		return "the server's certificate cannot be verified"
	case errors.As(err, &operation) && operation.Op == "remote error": // crypto/tls's name for alerts of the peer.
		return "the server refuses the TLS connection"
	case errors.As(err, &network) && network.Timeout():
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "the answer cannot be read; check that the server in the kubeconfig is a Kubernetes API server"
	}
}
