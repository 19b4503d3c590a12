// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
)

// nodeHeader adds the node to an impersonated service account, as a token does that is bound to a
// pod. KubeVirt's webhooks then know which virt-handler changes an instance (gate NodeRestriction,
// pkg/virt-api/webhooks/validating-webhook/admitters/vmi-update-admitter.go).
const nodeHeader = "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"

// nodeKey is the key of a context's node.
type nodeKey struct{}

// onNode returns a context for a request of the virt-handler of a node.
func onNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// NamingNodes makes requests name the node of their context.
func NamingNodes(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return nodeNamer{next} })
	return config
}

type nodeNamer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n nodeNamer) RoundTrip(r *http.Request) (*http.Response, error) {
	if node, ok := r.Context().Value(nodeKey{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set(nodeHeader, node)
	}
	return n.next.RoundTrip(r)
}
