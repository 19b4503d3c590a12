// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
)

// TestTokenRotation revokes a token, and stores a new one in the Secret.
func TestTokenRotation(t *testing.T) {
	t.Parallel()

	var sent atomic.Value

	watch := func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			sent.Store(r.Header.Get("Authorization"))

			return next.RoundTrip(r)
		})
	}

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Wrap: watch})
	m := s.NewMachine("zone-x", harness.EphemeralRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	valid := m.Secret.Data["kubeconfig"]
	m.Secret.Data["kubeconfig"] = harness.WithToken(t, valid, func(token string) string { return token[:len(token)-20] + strings.Repeat("A", 20) })

	for method, call := range methods(m, d) {
		err := call(t.Context())
		require.Equal(t, codes.Unauthenticated, harness.CodeOf(err), method)
		require.ErrorContains(t, err, "has expired or was revoked; put a kubeconfig with valid credentials into", method)
	}

	token := s.NewToken(t)
	m.Secret.Data["kubeconfig"] = harness.WithToken(t, valid, func(string) string { return token })

	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, "Bearer "+token, sent.Load(), "the next call uses it")
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// methods returns all methods that send requests to the provider cluster.
func methods(m *harness.Machine, d driver.Driver) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"CreateMachine":     func(ctx context.Context) error { _, err := m.Create(ctx, d); return err },
		"InitializeMachine": func(ctx context.Context) error { _, err := m.Initialize(ctx, d); return err },
		"GetMachineStatus":  func(ctx context.Context) error { _, err := m.Status(ctx, d); return err },
		"DeleteMachine":     func(ctx context.Context) error { return m.Remove(ctx, d) },
		"ListMachines":      func(ctx context.Context) error { _, err := m.List(ctx, d); return err },
	}
}

// hostileKubeconfig returns the kubeconfig of an API server with the given answer.
// Its token is the canary.
func hostileKubeconfig(t *testing.T, answer http.HandlerFunc) []byte {
	t.Helper()

	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "machines"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: suite.UserDataCanary}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
	})
	require.NoError(t, err)

	return raw
}

// TestHostileServers calls the driver's methods against malicious servers. No error may contain the
// canary; the final search also looks for it in the logs.
func TestHostileServers(t *testing.T) {
	t.Parallel()

	var followed atomic.Int32

	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(other.Close)

	answer := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Warning", `299 - "`+suite.UserDataCanary+`"`)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body) // The driver may hang up.
		}
	}

	tests := map[string]struct {
		reason string
		answer http.HandlerFunc
		code   codes.Code
		says   string
	}{
		"Echo": {"the request's body, as the response", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body) // The driver may hang up.
			_, _ = io.WriteString(w, " ")
		}, codes.Unavailable, "cannot be read"},
		"NoKind":   {"an object without a type", answer(200, "application/json", `{"data":{"userdata":"`+suite.UserDataCanary+`"}}`), codes.Unavailable, "cannot be read"},
		"Page":     {"a page", answer(200, "text/html", "<html>"+suite.UserDataCanary), codes.Unavailable, "cannot be read"},
		"Gateway":  {"a proxy's page", answer(502, "text/html", "<html>"+suite.UserDataCanary), codes.Unavailable, "not from a Kubernetes API server"},
		"NotFound": {"a 404 page that is not from an API server", answer(404, "text/html", "<html>"+suite.UserDataCanary), codes.FailedPrecondition, "could not find"},
		"Redirect": {"a redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/"+suite.UserDataCanary, http.StatusTemporaryRedirect)
		}, codes.Unavailable, "307"},
		"Message": {
			"a long message with line breaks, colours and brackets", answer(403, "application/json",
				`{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"[31m]\n\u001b[0m`+strings.Repeat("very ", 20_000)+`"}`),
			codes.PermissionDenied, "(31m)  (0mvery",
		},
		"Endless": {"an endless body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")

			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat(suite.UserDataCanary, 10_000))
			}
		}, codes.Unavailable, "too large"},
		"Pages": {"an endless list", answer(200, "application/json",
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":"x"},"items":[]}`), codes.Unavailable, "does not end"},
		"Silence": {"no response", func(_ http.ResponseWriter, r *http.Request) { hold(r, time.Hour) }, codes.Unavailable, "no response in time"},
	}

	s := harness.NewShoot(t)

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := s.NewMachine("zone-a", harness.EphemeralRoot)
			m.Secret.Data["kubeconfig"] = hostileKubeconfig(t, tc.answer)
			d := harness.NewDriver(harness.Settings{Grace: time.Minute, Retry: time.Second})

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			if name == "Silence" { // Instead of the 30 s limit of the driver's requests.
				ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
			}

			err := methods(m, d)[map[bool]string{true: "ListMachines", false: "CreateMachine"}[name == "Pages"]](ctx)
			require.Equal(t, tc.code, harness.CodeOf(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), suite.UserDataCanary)
			require.Less(t, len(err.Error()), 1200)
		})
	}

	t.Cleanup(func() { require.Zero(t, followed.Load(), "redirects are not followed") })
}

// hold waits, at most until the driver disconnects, which a server detects only after
// reading the whole request.
func hold(r *http.Request, how time.Duration) {
	_, _ = io.Copy(io.Discard, r.Body) // The driver may hang up.

	select {
	case <-r.Context().Done():
	case <-time.After(how):
	}
}
