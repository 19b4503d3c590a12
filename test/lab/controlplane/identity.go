// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is a user that authenticates to the API server with a static token.
type identity struct {
	name   string
	groups []string
	token  string
}

// The identities of a cluster. The service accounts have KubeVirt's and CDI's own names, since
// virt-api trusts only those.
const (
	admin             = "lab-admin"
	controllerManager = "system:kube-controller-manager"
	scheduler         = "system:kube-scheduler"
	virtAPI           = "system:serviceaccount:kubevirt:kubevirt-apiserver"
	virtController    = "system:serviceaccount:kubevirt:kubevirt-controller"
	virtHandler       = "system:serviceaccount:kubevirt:kubevirt-handler"
	cdiAPIServer      = "system:serviceaccount:cdi:cdi-apiserver"
	cdiController     = "system:serviceaccount:cdi:cdi-sa"
	kubeProxy         = "system:kube-proxy"
	coreDNS           = "system:coredns"
	multus            = "system:multus"
)

func newIdentity(name string) (identity, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return identity{}, fmt.Errorf("make token: %w", err)
	}
	i := identity{name: name, groups: []string{"system:authenticated"}, token: hex.EncodeToString(raw)}
	if name == admin {
		i.groups = append(i.groups, "system:masters")
	}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(account, ":")
		i.groups = append(i.groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if strings.HasPrefix(name, kubeletUser) {
		i.groups = append(i.groups, "system:nodes")
	}
	return i, nil
}

// tokenFile returns the content of the API server's --token-auth-file.
func tokenFile(identities []identity) []byte {
	var b strings.Builder
	for _, i := range identities {
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", i.token, i.name, i.name, strings.Join(i.groups, ","))
	}
	return []byte(b.String())
}

// kubeconfig returns the content of a kubeconfig for a token, with an optional default namespace.
func kubeconfig(cluster, server string, ca []byte, token, namespace string) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	c.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos[cluster] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: cluster, Namespace: namespace}
	c.CurrentContext = cluster
	data, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}

// Kubeconfig returns the content of a kubeconfig that authenticates to the cluster with a token.
func (c *Cluster) Kubeconfig(token, namespace string) ([]byte, error) {
	return kubeconfig(c.Name, c.ServerURL, c.pki.ca.pem, token, namespace)
}

// config returns a client configuration for an identity, with request limits
// high enough for a simulator.
func (c *Cluster) config(name string) *rest.Config {
	const qps, burst = 500, 1000
	return &rest.Config{
		Host:            c.ServerURL,
		BearerToken:     c.identities[name].token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca.pem},
		QPS:             qps,
		Burst:           burst,
		UserAgent:       "lab",
	}
}

// writeKubeconfig writes <dir>/<file>.kubeconfig for an identity.
func (c *Cluster) writeKubeconfig(name, file string) (string, error) {
	data, err := c.Kubeconfig(c.identities[name].token, "")
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, file+".kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return path, nil
}
