// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// kubelet answers like kubelet: with the last lines, and of these as many bytes from the beginning as the limit allows.
func kubelet(w http.ResponseWriter, r *http.Request, lines []string) {
	if last := r.URL.Query().Get("tailLines"); last != "" {
		n, _ := strconv.Atoi(last)
		lines = lines[max(0, len(lines)-n):]
	}

	text := strings.Join(lines, "")
	limit, _ := strconv.Atoi(r.URL.Query().Get("limitBytes"))
	fmt.Fprint(w, text[:min(len(text), limit)])
}

// TestClients_Log reads the beginning and the end of logs.
func TestClients_Log(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		// size is the length of each line, and lines is their number.
		size, lines int
		// tails are the numbers of lines that are requested; none is 0.
		tails []string
	}{
		"Empty":  {reason: "the guest has printed nothing", tails: []string{""}},
		"Short":  {reason: "one request is enough", size: 100, lines: 100, tails: []string{""}},
		"Long":   {reason: "the end is read, too", size: 100, lines: 10_000, tails: []string{"", "1000"}},
		"Wide":   {reason: "a thousand lines are cut at their end", size: 1000, lines: 10_000, tails: []string{"", "1000", "125"}},
		"Widest": {reason: "the runtime divides longer lines", size: 16<<10 + 64, lines: 100, tails: []string{"", "1000", "125", "15"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			lines := make([]string, tc.lines)
			for i := range lines {
				lines[i] = fmt.Sprintf("%0*d\n", tc.size-1, i)
			}

			var tails []string

			clients := clientsOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")

				query := r.URL.Query()
				tails = append(tails, query.Get("tailLines"))
				query.Del("tailLines")

				if strings.HasSuffix(r.URL.Path, "/pods/p/log") && query.Encode() == "container=c&limitBytes=262144&timestamps=true" {
					kubelet(w, r, lines)
				}
			}))

			begin, end, err := clients.Log(t.Context(), "p", "c")
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.tails, tails, tc.reason)

			whole := strings.Join(lines, "")
			require.True(t, strings.HasPrefix(whole, begin), "the beginning")
			require.True(t, strings.HasSuffix(whole, end), "the end")
			require.Equal(t, len(tails) > 1, end != "")
			require.Len(t, begin, min(len(whole), transport.MaxText))
		})
	}
}

// TestClients_LogEndless reads from a server that ignores the limits.
func TestClients_LogEndless(t *testing.T) {
	t.Parallel()

	clients := clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		endless(w, strings.Repeat("[", 1000))
	}))

	begin, end, err := clients.Log(t.Context(), "p", "c")
	require.NoError(t, err)
	require.Len(t, begin, transport.MaxText)
	require.Len(t, end, transport.MaxText)
}

func TestClients_LogDenied(t *testing.T) {
	t.Parallel()

	clients := clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"p\" is forbidden"}`)
	}))

	_, _, err := clients.Log(t.Context(), "p", "c")
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, `pods "p" is forbidden`)
}
