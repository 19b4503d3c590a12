// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kubelets describes how the API server of a cluster and real kubelets, those of guests that boot,
// reach each other.
type Kubelets struct {
	// Server is the IP address of the API server in the guests' network. The API server listens on all addresses of its network
	// namespace.
	Server string
}

// joinControllers are the controllers that give kubelets their client certificates, and that find the pods of Services, which run.
const joinControllers = ",certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller,endpointslice-controller"

// kubeletClient is the user as which the API server authenticates to kubelets.
const kubeletClient = "kube-apiserver-kubelet-client"

// Bootstrappers is the group of the bootstrap tokens that may request kubelets' certificates, as in clusters
// made by kubeadm.
const Bootstrappers = "system:bootstrappers:kubeadm:default-node-token"

// allBootstrappers is the group of every bootstrap token. In a shoot, Gardener grants it what kubeadm grants Bootstrappers.
const allBootstrappers = "system:bootstrappers"

// prepareKubelets writes the certificates and the configuration for real kubelets.
func (c *Cluster) prepareKubelets() error {
	if c.options.Kubelets == nil {
		return nil
	}
	if err := c.pki.issueInto("kubelet-client", c.pki.ca, kubeletClient); err != nil {
		return err
	}
	return c.pki.writeSigningKey()
}

// serverNames returns the names of the API server besides those in every cluster.
func (o Options) serverNames() []string {
	var names []string
	if o.Kubelets != nil {
		names = append(names, o.Kubelets.Server)
	}
	if o.Nodes != nil {
		names = append(names, o.Nodes.Server)
	}
	return names
}

// authorizationModes restricts real kubelets to the objects of their Nodes.
func (c *Cluster) authorizationModes() string {
	if c.options.Kubelets == nil && c.options.Nodes == nil {
		return "RBAC"
	}
	return "Node,RBAC"
}

// kubeletArgs are the API server's arguments for real kubelets.
func (c *Cluster) kubeletArgs() []string {
	if c.options.Kubelets == nil {
		return nil
	}
	return append([]string{"--enable-bootstrap-token-auth"}, c.nodeClientArgs()...)
}

// signingArgs are kube-controller-manager's arguments for signing kubelets' certificates.
func (c *Cluster) signingArgs() []string {
	if c.options.Kubelets == nil {
		return nil
	}
	return []string{
		"--cluster-signing-cert-file=" + c.pki.file("ca.crt"), "--cluster-signing-key-file=" + c.pki.file("ca.key"),
	}
}

// admitKubelets grants what kubeadm grants: the permissions of docs/getting-started.md, and the API
// server's for the kubelets' own API.
func (c *Cluster) admitKubelets(ctx context.Context) error {
	if c.options.Kubelets == nil {
		return nil
	}
	bootstrappers := Bootstrappers
	if c.Name == target {
		bootstrappers = allBootstrappers
	}
	return c.apply(ctx, []unstructured.Unstructured{
		clusterRoleBinding("node-bootstrap", "system:node-bootstrapper", "Group", bootstrappers),
		clusterRoleBinding("node-bootstrap-approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", "Group", bootstrappers),
		clusterRoleBinding("node-renew-approve", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "Group", "system:nodes"),
		clusterRoleBinding("kubelet-api", "system:kubelet-api-admin", "User", kubeletClient),
	})
}

func clusterRoleBinding(name, role, kind, subject string) unstructured.Unstructured {
	const group = "rbac.authorization.k8s.io"
	o := named(group+"/v1", "ClusterRoleBinding", name)
	o["roleRef"] = object{"apiGroup": group, "kind": "ClusterRole", "name": role}
	o["subjects"] = []any{object{"apiGroup": group, "kind": kind, "name": subject}}
	return unstructured.Unstructured{Object: o}
}
