// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// TestMapper compares the mapper with the resources of API servers.
func TestMapper(t *testing.T) {
	t.Parallel()

	for kind, resource := range map[schema.GroupVersionKind]string{
		NetworkAttachmentDefinition: "network-attachment-definitions",
		UserDefinedNetwork:          "userdefinednetworks",
		VPC:                         "vpcs",
		Subnet:                      "subnets",
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:              "networkpolicies",
		{Version: "v1", Kind: "ResourceQuota"}:                                          "resourcequotas",
		{Version: "v1", Kind: "Secret"}:                                                 "secrets",
		{Version: "v1", Kind: "Namespace"}:                                              "namespaces",
		{Version: "v1", Kind: "Node"}:                                                   "nodes",
		{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}:                  "storageclasses",
		{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}:                   "virtualmachines",
		{Group: "kubevirt.io", Version: "v1", Kind: "KubeVirt"}:                         "kubevirts",
		{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"}:              "datavolumes",
		{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "CDI"}:                     "cdis",
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"}: "selfsubjectaccessreviews",
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectRulesReview"}:  "selfsubjectrulesreviews",
		{Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview"}:      "selfsubjectreviews",
	} {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		require.Equal(t, resource, mapping.Resource.Resource)
	}
}

// serve returns a client of a provider cluster with that server.
func serve(t *testing.T, handler http.HandlerFunc) client.Client {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	config := &rest.Config{Host: server.URL}
	options, _, err := clientOptions(config, transport.AnyServer)
	require.NoError(t, err)

	c, err := client.New(config, options)
	require.NoError(t, err)

	return newRequests(c, nil)
}

func getNode(t *testing.T, c client.Client) error {
	t.Helper()

	return c.Get(t.Context(), client.ObjectKey{Name: "node"}, &corev1.Node{})
}

// TestClientOptions_Rate requires that the pages of the virtual machines of a large Shoot do not take longer than a reconciliation may without a
// place: client-go's default of five requests per second would.
func TestClientOptions_Rate(t *testing.T) {
	t.Parallel()

	const pages = 60

	config := &rest.Config{Host: "https://provider.example.com"}
	_, _, err := clientOptions(config, transport.AnyServer)
	require.NoError(t, err)
	require.Greater(t, float64(config.QPS)*promptTimeout.Seconds(), float64(2*pages))
	require.Greater(t, config.Burst, pages)
}

// TestClientOptions_RefusesRedirects checks that the client does not follow redirects.
func TestClientOptions_RefusesRedirects(t *testing.T) {
	t.Parallel()

	reached := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(target.Close)

	require.Error(t, getNode(t, serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, http.StatusFound) })))
	require.False(t, reached)
}

// TestClientOptions_BoundsResponses checks that the client stops reading an endless response.
func TestClientOptions_BoundsResponses(t *testing.T) {
	t.Parallel()

	err := getNode(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		for range 10 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
				return
			}
		}
	}))
	require.ErrorContains(t, err, "it takes more than 1 MiB of memory")
}

// TestNameError keeps the kind of an error, and bounds its text.
func TestNameError(t *testing.T) {
	t.Parallel()

	err := getNode(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "code": 403, "message": "` + strings.Repeat("x", 1<<20) + `"}`))
	}))
	require.True(t, apierrors.IsForbidden(err))
	require.Equal(t, metav1.StatusReasonForbidden, apierrors.ReasonForError(err))
	require.True(t, strings.HasPrefix(err.Error(), ErrorPrefix))
	require.Less(t, len(err.Error()), 2*maxMessage)
}

// TestNewClients_InternalServers refuses servers that a seed must not call for a shoot owner, unless the
// operator allows them.
func TestNewClients_InternalServers(t *testing.T) {
	t.Parallel()

	const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
		"clusters": [{"name": "a", "cluster": {"server": "SERVER"}}], "users": [{"name": "a", "user": {"token": "b"}}]}`

	ref := corev1.SecretReference{Namespace: "shoot--a--b", Name: "cloudprovider"}

	for _, server := range []string{"https://127.0.0.1:6443", "https://kubernetes.default.svc", "https://169.254.169.254", "https://localhost"} {
		seed := fake.NewClientBuilder().WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
			Data:       map[string][]byte{"kubeconfig": []byte(strings.ReplaceAll(kubeconfig, "SERVER", server))},
		}).Build()

		_, err := NewClients(transport.ExternalServers, 1).New(t.Context(), seed, ref)
		require.ErrorIs(t, err, ErrCredentials, server)
		require.ErrorContains(t, err, "field server of the current context is refused", server)

		_, err = NewClients(transport.AnyServer, 1).New(t.Context(), seed, ref)
		require.NoError(t, err, server)
	}
}
