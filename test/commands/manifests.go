// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"strings"
)

// ClassAsJSON is a MachineClass without errors.
const ClassAsJSON = `{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": {"name": "c"},
	"secretRef": {"name": "s", "namespace": "ns"}, "providerSpec": {"region": "r", "zone": "z", "memory": {"guest": "1Gi"},
	"tags": {"mcm.gardener.cloud/cluster": "c", "mcm.gardener.cloud/role": "node"},
	"rootVolume": {"containerDisk": {"image": "example.com/image"}}}}`

// KubeconfigOf returns a kubeconfig for a server.
func KubeconfigOf(server *httptest.Server) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	return strings.NewReplacer("https://127.0.0.1:1", server.URL,
		"{server:", "{certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority)+", server:").Replace(Unreachable)
}

// Unreachable is the kubeconfig of a nonexistent provider cluster.
const Unreachable = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: machines}}]
users: [{name: u, user: {token: t0p-secret}}]
`

// WithSecret adds the Secret of the class.
func WithSecret(class, kubeconfig string) string {
	return class + "---\nkind: Secret\nmetadata: {name: s, namespace: ns}\nstringData:\n  userData: t0p-secret\n  kubeconfig: |\n    " +
		strings.ReplaceAll(kubeconfig, "\n", "\n    ") + "\n"
}

// GoodKubeconfig is the kubeconfig of a provider cluster.
const GoodKubeconfig = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: c, namespace: machines}}]
clusters: [{name: c, cluster: {server: "https://kubevirt.example.com"}}]
users: [{name: c, user: {token: t0p-secret}}]
`
