// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// TestClients_Log reads logs from servers, of which some do not respect the limits.
func TestClients_Log(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		answer func(w http.ResponseWriter, r *http.Request)
		// size is that of the log, and requests are the queries.
		size     int
		requests []string
	}{
		"Short": {
			reason: "one request is enough",
			answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a\nb\n") },
			size:   4, requests: []string{"container=c&limitBytes=262144&timestamps=true"},
		},
		"Long": {
			reason: "the end is read, too",
			answer: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("tailLines") {
					fmt.Fprint(w, "end\n")
				} else {
					fmt.Fprint(w, strings.Repeat("x", transport.MaxText))
				}
			},
			size:     transport.MaxText + len("\nend\n"),
			requests: []string{"container=c&limitBytes=262144&timestamps=true", "container=c&limitBytes=262144&tailLines=1000&timestamps=true"},
		},
		"Endless": {
			reason:   "the server ignores the limit",
			answer:   func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat("[", 1000)) },
			size:     2*transport.MaxText + 1,
			requests: []string{"container=c&limitBytes=262144&timestamps=true", "container=c&limitBytes=262144&tailLines=1000&timestamps=true"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked []string

			clients := clientsOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")

				asked = append(asked, r.URL.RawQuery)
				if strings.HasSuffix(r.URL.Path, "/pods/p/log") {
					tc.answer(w, r)
				}
			}))

			log, err := clients.Log(t.Context(), "p", "c")
			require.NoError(t, err, tc.reason)
			require.Len(t, log, tc.size, tc.reason)
			require.Equal(t, tc.requests, asked, tc.reason)
		})
	}
}

func TestClients_LogDenied(t *testing.T) {
	t.Parallel()

	clients := clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"p\" is forbidden"}`)
	}))

	_, err := clients.Log(t.Context(), "p", "c")
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, `pods "p" is forbidden`)
}
