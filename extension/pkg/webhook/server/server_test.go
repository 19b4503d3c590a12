// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// TestServer serves a webhook that was registered through the Registrar, within the limits.
func TestServer(t *testing.T) {
	t.Parallel()

	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	require.NoError(t, listener.Close())

	server := New(webhook.Options{
		Host: "127.0.0.1",
		Port: address.Port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		}},
	})

	mgr, err := manager.New(&rest.Config{}, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}, WebhookServer: server})
	require.NoError(t, err)

	registered := Registrar(mgr).GetWebhookServer()
	require.IsType(t, &webhook.DefaultServer{}, registered, "Gardener's library requires it")
	registered.Register("/a", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))

	require.Error(t, mgr.GetWebhookServer().StartedChecker()(nil), "it is not ready before it listens")

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)

	go func() { ended <- mgr.Start(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})

	require.Eventually(t, func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil }, 30*time.Second, 10*time.Millisecond)

	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

	for body, want := range map[string]int{"a": http.StatusNoContent, strings.Repeat("a", maxBody+1): http.StatusRequestEntityTooLarge} {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address.String()+"/a", strings.NewReader(body))
		require.NoError(t, err)

		response, err := client.Do(request)
		require.NoError(t, err)

		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode)
		require.Equal(t, 2, response.ProtoMajor, "the protocol of API servers")
	}
}
