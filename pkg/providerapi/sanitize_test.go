// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestExplained_PlainTerms checks the texts of failures, whose causes may quote
// an untrusted server's response.
func TestExplained_PlainTerms(t *testing.T) {
	t.Parallel()

	const bytes = "s3cr3t"

	sent := func(err error) error { return &url.Error{Op: "Get", URL: "https://" + bytes, Err: err} }

	tests := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Status":      {"an API server may explain itself", answered(http.StatusForbidden, "a right is missing"), "permission denied: get x: a right is missing"},
		"NoMessage":   {"an empty text explains nothing", answered(http.StatusForbidden, " "), `permission denied: get x: the server responded without a message: 403 Forbidden`},
		"Token":       {"says what to do", apierrors.NewUnauthorized(bytes), "credentials refused: get x: " + expired},
		"Refused":     {"nobody listens", sent(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "connection refused"},
		"Name":        {"the seed's resolver is nobody's business", sent(&net.DNSError{Err: "no such host", Server: bytes}), "cannot be resolved"},
		"Internal":    {"the name resolves to the host of the driver", sent(&net.OpError{Op: "dial", Err: &kubeconfig.InternalServerError{Kind: "a loopback address"}}), "it is a loopback address"},
		"Certificate": {"names of the server's certificate", sent(&tls.CertificateVerificationError{Err: errors.New(bytes)}), "certificate-authority-data"},
		"Alert":       {"the client's certificate is refused", sent(&net.OpError{Op: "remote error", Err: errors.New(bytes)}), "client certificate"},
		"Size":        {"an answer without end", fmt.Errorf("%s: %w", bytes, transport.ErrPage), "too large"},
		"Deadline":    {"an answer that drips", sent(context.DeadlineExceeded), "no response in time"},
		"Cancelled":   {"the process ends", sent(context.Canceled), "cancelled"},
		"Closed":      {"the server hangs up", sent(io.ErrUnexpectedEOF), "connection was closed"},
		"NoKind":      {"the decoder quotes the whole answer", runtime.NewMissingKindErr(bytes), "cannot be read"},
		"Garbage":     {"no HTTP at all", sent(errors.New("malformed HTTP response " + bytes)), "cannot be read"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := request(t, &Clients{RetryFor: 10 * time.Millisecond}, transport.RequestTimeout, func(context.Context) error { return tc.err })
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorIs(t, err, tc.err, "callers ask for the kind")
			require.NotContains(t, err.Error(), bytes)
			require.ErrorContains(t, err, "get x: ")
		})
	}

	require.ErrorIs(t, request(t, &Clients{RetryFor: 10 * time.Millisecond}, transport.RequestTimeout, func(context.Context) error { return apierrors.NewUnauthorized("") }), spi.ErrUnauthenticated)
}

// TestRepeat_Deadline verifies that every request has a deadline, whatever the server does: the body of
// a response is read under the same deadline.
func TestRepeat_Deadline(t *testing.T) {
	t.Parallel()

	err := request(t, &Clients{RetryFor: time.Second}, transport.RequestTimeout, func(ctx context.Context) error {
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.LessOrEqual(t, time.Until(deadline), transport.RequestTimeout)

		return nil
	})
	require.NoError(t, err)
}
