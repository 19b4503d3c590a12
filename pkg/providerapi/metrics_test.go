// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

func tokenWith(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString

	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

// samples returns the samples of the expiry metric, one line each.
func samples(t *testing.T, cache *providerapi.Cache) []string {
	t.Helper()

	return samplesOf(t, cache, "mcm_kubevirt_credentials_expiry_timestamp_seconds")
}

// samplesOf returns the samples of a metric, one line each.
func samplesOf(t *testing.T, cache *providerapi.Cache, name string) []string {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(cache))

	families, err := registry.Gather()
	require.NoError(t, err)

	var lines []string

	for _, family := range families {
		if family.GetName() != name {
			continue
		}

		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}

			lines = append(lines, fmt.Sprintf("%s{%s} %.0f", family.GetName(), strings.Join(labels, ","), metric.GetGauge().GetValue()))
		}
	}

	return lines
}

func TestExpiryMetric(t *testing.T) {
	t.Parallel()

	const name = "mcm_kubevirt_credentials_expiry_timestamp_seconds{namespace=machines,server=https://127.0.0.1:6443,type="

	cert, key, err := certificates.SelfSigned(time.Unix(4102444800, 0))
	require.NoError(t, err)

	tests := map[string]struct {
		reason string
		user   object
		want   []string
	}{
		"Token":       {"a service account's token says when it ends", object{"token": tokenWith(`{"exp":4000000000}`)}, []string{name + "token} 4000000000"}},
		"Certificate": {"so does a certificate", object{"client-certificate-data": cert, "client-key-data": key}, []string{name + "client-certificate} 4102444800"}},
		"Both": {
			"whichever is first",
			object{"token": tokenWith(`{"exp":1}`), "client-certificate-data": cert, "client-key-data": key},
			[]string{name + "client-certificate} 4102444800", name + "token} 1"},
		},
		"Endless":  {"a token without end", object{"token": tokenWith(`{"sub":"me"}`)}, nil},
		"Opaque":   {"a token that says nothing", object{"token": "abc"}, nil},
		"Broken":   {"a token that is none", object{"token": "a.%%%.c"}, nil},
		"Text":     {"an end that is no number", object{"token": tokenWith(`{"exp":"` + canary + `"}`)}, nil},
		"Infinite": {"a number beyond all numbers", object{"token": tokenWith(`{"exp":1e999}`)}, nil},
		"Password": {"passwords do not say", object{"username": "me", "password": hostile.Token}, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cache := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1})
			_, err := cache.For(hostile.KubeconfigWith(t, func(_, user, _ object) {
				delete(user, "token")

				for key, value := range tc.user {
					user[key] = value
				}
			}))
			require.NoError(t, err)
			require.Equal(t, tc.want, samples(t, cache), tc.reason)
		})
	}
}

// TestLifetimeMetric verifies that an alert can distinguish tokens that are renewed every hour from
// those valid for a year.
func TestLifetimeMetric(t *testing.T) {
	t.Parallel()

	const name = "mcm_kubevirt_credentials_lifetime_seconds"

	cert, key, err := certificates.SelfSigned(time.Unix(4102444800, 0))
	require.NoError(t, err)

	for claims, want := range map[string]string{
		`{"iat":4000000000,"exp":4000003600}`: "3600", `{"exp":4000000000}`: "0", `{"iat":4000000000,"exp":1}`: "0",
	} {
		cache := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1})
		_, err := cache.For(hostile.KubeconfigWith(t, func(_, user, _ object) {
			user["token"] = tokenWith(claims)
			user["client-certificate-data"] = cert
			user["client-key-data"] = key
		}))
		require.NoError(t, err)
		require.Equal(t, []string{
			name + "{namespace=machines,server=https://127.0.0.1:6443,type=client-certificate} 0", // The certificate has no beginning.
			name + "{namespace=machines,server=https://127.0.0.1:6443,type=token} " + want,
		}, samplesOf(t, cache, name), claims)
	}
}

// TestExpiryMetric_RotatedToken replaces a token. It runs in a synctest bubble with a fake clock.
func TestExpiryMetric_RotatedToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1})
		use := func(namespace, claims string) {
			_, err := cache.For(hostile.KubeconfigWith(t, func(_, user, context object) {
				user["token"] = tokenWith(claims)
				context["namespace"] = namespace
			}))
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(time.Minute) //nolint:forbidigo // The bubble's clock.
		}

		use("machines", `{"exp":1000}`)
		use("other", `{"exp":3000}`)
		use("machines", `{"exp":2000}`)

		lines := samples(t, cache)
		require.Len(t, lines, 2, "the old token no longer counts")
		require.Contains(t, lines[0], "namespace=machines")
		require.Contains(t, lines[0], "} 2000")

		time.Sleep(59 * time.Minute) //nolint:forbidigo // The bubble's clock.
		require.Len(t, samples(t, cache), 1, "what nobody used for an hour is gone")
	})
}

// TestCache_Bounds changes the kubeconfig constantly, as a malicious user may.
func TestCache_Bounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1})

		for i := range 600 {
			_, err := cache.For(hostile.KubeconfigWith(t, func(_, user, context object) {
				user["token"] = tokenWith(`{"exp":1}`)
				context["namespace"] = fmt.Sprintf("n%d", i)
			}))
			require.NoError(t, err)
			time.Sleep(time.Second) //nolint:forbidigo // The bubble's clock.
		}

		lines := samples(t, cache)
		require.Len(t, lines, 512)
		require.NotContains(t, strings.Join(lines, "\n"), "namespace=n87,", "the least recently used ones go first")
		require.Contains(t, strings.Join(lines, "\n"), "namespace=n88,")
	})
}
