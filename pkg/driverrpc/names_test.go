// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesIn checks which names of a certificate may be in the list of clients.
func TestNamesIn(t *testing.T) {
	t.Parallel()

	unnamed := &x509.Certificate{DNSNames: []string{"a.example.com"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "b"}, {}}}
	require.Equal(t, []string{"a.example.com", "spiffe://b"}, namesIn(unnamed))
	require.Error(t, requireAllowed([]string{""}, unnamed), "an empty name identifies no client")

	named := &x509.Certificate{Subject: pkix.Name{CommonName: "c"}}
	require.Equal(t, []string{"c"}, namesIn(named))
	require.NoError(t, requireAllowed([]string{"c"}, named))
}
