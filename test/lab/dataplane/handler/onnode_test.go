// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestRequestsNameTheirNode shows that only the requests of a virt-handler name a node.
func TestRequestsNameTheirNode(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(NamingNodes(&rest.Config{
		Host:        server.URL,
		Impersonate: rest.ImpersonationConfig{UserName: "handler"},
	}))
	require.NoError(t, err)
	request := func(ctx context.Context) http.Header {
		_, err := client.CoreV1().Pods("ns").Get(ctx, "pod", metav1.GetOptions{})
		require.Error(t, err)
		return <-seen
	}
	header := request(onNode(t.Context(), "node-a"))
	require.Equal(t, "handler", header.Get("Impersonate-User"))
	require.Equal(t, "node-a", header.Get(nodeHeader))
	require.Empty(t, request(t.Context()).Get(nodeHeader), "a list is not a request of one node")
}
