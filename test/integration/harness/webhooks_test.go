// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestRepeating(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, failure string
		requests        int
		code            int
	}{
		"Lost":    {"the connection was idle", `failed calling webhook \"a\": write: broken pipe`, 2, http.StatusCreated},
		"Refused": {"the webhook is down, which a test may want", `failed calling webhook \"a\": connection refused`, 1, http.StatusInternalServerError},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var bodies []string

			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))

				if len(bodies) > 1 {
					w.WriteHeader(http.StatusCreated)

					return
				}

				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, tc.failure)
			}))
			t.Cleanup(server.Close)

			client, err := rest.HTTPClientFor(repeating(&rest.Config{Host: server.URL}))
			require.NoError(t, err)

			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("object"))
			require.NoError(t, err)

			response, err := client.Do(request)
			require.NoError(t, err)

			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, tc.code, response.StatusCode, tc.reason)
			require.Len(t, bodies, tc.requests)
			require.Equal(t, "object", bodies[tc.requests-1])

			if tc.requests == 1 {
				require.Equal(t, tc.failure, string(text))
			}
		})
	}
}
