// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// Failure names the failure of a request without a response. The text of the error itself may quote bytes
// of an untrusted response, and names and addresses of the seed.
func Failure(err error) string {
	if internal := (*kubeconfig.InternalServerError)(nil); errors.As(err, &internal) {
		return internal.Error()
	}

	return failureOf(err)
}

func failureOf(err error) string {
	var (
		number      syscall.Errno
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		operation   *net.OpError
		network     net.Error
	)

	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no response in time"
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
		return "no response in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "the response cannot be read; check that the server in the kubeconfig is a Kubernetes API server"
	}
}
