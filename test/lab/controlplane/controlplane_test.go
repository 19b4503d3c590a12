// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPoint(t *testing.T) {
	t.Parallel()
	e := endpoint{port: 20001, ca: []byte("ca")}
	webhook, err := decode(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w},
		webhooks: [{name: a, clientConfig: {service: {namespace: space, name: s, path: /check, port: 443}}}]}`)
	require.NoError(t, err)
	require.True(t, isRegistration(webhook))
	require.NoError(t, point(webhook, e))
	webhooks, _, err := unstructured.NestedSlice(webhook.Object, "webhooks")
	require.NoError(t, err)
	require.Equal(t, []any{object{"name": "a", "clientConfig": object{"url": "https://127.0.0.1:20001/check", "caBundle": "Y2E="}}}, webhooks)

	service, err := decode(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: s},
		spec: {group: g, service: {namespace: space, name: s}}}`)
	require.NoError(t, err)
	require.NoError(t, point(service, e))
	require.Equal(t, object{"group": "g", "caBundle": "Y2E=", "service": object{"namespace": "space", "name": "s", "port": int64(20001)}},
		service.Object["spec"])
}

func TestPKI(t *testing.T) {
	t.Parallel()
	one, err := newPKI(t.TempDir(), "one")
	require.NoError(t, err)
	two, err := newPKI(t.TempDir(), "two")
	require.NoError(t, err)
	data, err := os.ReadFile(one.file("server.crt"))
	require.NoError(t, err)
	block, _ := pem.Decode(data)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, name := range []string{loopback, "localhost", "virt-api.kubevirt.svc", "cdi-api.cdi.svc"} {
		_, err = certificate.Verify(x509.VerifyOptions{Roots: pool(one), DNSName: name})
		require.NoError(t, err, name)
	}
	_, err = certificate.Verify(x509.VerifyOptions{Roots: pool(two), DNSName: loopback})
	require.Error(t, err, "neither cluster trusts the other")
}

func pool(p *pki) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(p.ca.certificate)
	return roots
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	account, err := newIdentity(virtHandler)
	require.NoError(t, err)
	root, err := newIdentity(admin)
	require.NoError(t, err)
	lines := strings.Split(string(tokenFile([]identity{account, root})), "\n")
	require.Equal(t, account.token+`,system:serviceaccount:kubevirt:kubevirt-handler,system:serviceaccount:kubevirt:kubevirt-handler,`+
		`"system:authenticated,system:serviceaccounts,system:serviceaccounts:kubevirt"`, lines[0])
	require.Contains(t, lines[1], "system:masters")
	require.NotContains(t, lines[0], "system:masters")
}

func TestForEach(t *testing.T) {
	t.Parallel()
	var sum atomic.Int64
	items := []int64{1, 2, 3, 4}
	require.NoError(t, forEach(t.Context(), 2, items, func(_ context.Context, i *int64) error {
		sum.Add(*i)
		return nil
	}))
	require.EqualValues(t, 10, sum.Load())

	failure := errors.New("three")
	err := forEach(t.Context(), 2, items, func(_ context.Context, i *int64) error {
		if *i == 3 {
			return failure
		}
		return nil
	})
	require.ErrorIs(t, err, failure)
}

func TestTogetherCancelsTheOthers(t *testing.T) {
	t.Parallel()
	failure := errors.New("first")
	err := Together(t.Context(),
		func(context.Context) error { return failure },
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	require.ErrorIs(t, err, failure, "the first failure, not its consequence")
}
