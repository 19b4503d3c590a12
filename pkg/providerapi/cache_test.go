// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestIdentityOf(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, server, want string
	}{
		"Plain":     {"the port is always there", "https://example.com", "https://example.com:443"},
		"Port":      {"as it is given", "https://example.com:6443", "https://example.com:6443"},
		"SamePort":  {"the usual port may be given too", "https://example.com:443/", "https://example.com:443"},
		"Case":      {"names of hosts have no case", "https://Example.COM", "https://example.com:443"},
		"Path":      {"a gateway has many clusters", "https://gateway/k8s/clusters/c-m-1", "https://gateway:443/k8s/clusters/c-m-1"},
		"OtherPath": {"this is another one", "https://gateway/k8s/clusters/c-m-2/", "https://gateway:443/k8s/clusters/c-m-2"},
		"PathCase":  {"paths have case", "https://gateway/Clusters", "https://gateway:443/Clusters"},
		"Escapes":   {"nothing unprintable reaches logs and metrics", "https://gateway/a\u202eb%0A", "https://gateway:443/a%E2%80%AEb%0A"},
		"IPv6":      {"addresses have brackets", "https://[FD00::1]/x", "https://[fd00::1]:443/x"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := identityOf(tc.server)
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}

	_, err := identityOf("https://example.com/" + strings.Repeat("x", maxServer))
	require.ErrorContains(t, err, "use a shorter URL")
}

// slowly returns a kubeconfig that takes long to parse and is refused.
func slowly(i int) []byte {
	const size = 250 << 10

	return fmt.Appendf(nil, "a%d: [%s]", i, strings.Repeat("{a: b},", size/len("{a: b},")))
}

// TestCache_RemembersRefusals requests clients repeatedly, as
// machine-controller-manager does every few seconds.
func TestCache_RemembersRefusals(t *testing.T) {
	t.Parallel()

	const times = 20

	cache := NewCache(Options{QPS: 1, Burst: 1})
	raw := slowly(0)

	causes := make(map[error]bool)

	for range times {
		var refusal *spi.Error

		_, err := cache.For(raw)
		require.ErrorAs(t, err, &refusal)

		causes[refusal.Cause] = true
	}

	require.Len(t, causes, 1, "the kubeconfig is parsed once")
}

// TestCache_ParsesConcurrently requests clients for a kubeconfig while several others are parsed.
func TestCache_ParsesConcurrently(t *testing.T) {
	t.Parallel()

	const many = 8

	cache := NewCache(Options{QPS: 1, Burst: 1})
	refused := make(chan error, many)
	valid := []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":"https://example.com"}}],
		"users":[{"name":"u","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u","namespace":"n"}}]}`)

	for i := range many {
		go func() {
			_, err := cache.For(slowly(i))
			refused <- err
		}()
	}

	clients, err := cache.For(valid)
	require.NoError(t, err)
	require.Equal(t, "https://example.com:443", clients.Server)
	require.Less(t, len(refused), many, "it did not wait for all others")

	for range many {
		require.Error(t, <-refused)
	}
}
