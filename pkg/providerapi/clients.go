// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerapi is the only gateway to a provider cluster: every request, list and
// watch passes through it. It bounds responses in memory, nesting, numbers and time, retries transient failures, and makes errors safe to show.
// pkg/providercluster, pkg/images and tools/preflight/checks call it. It must not depend on
// the content or the purpose of a request.
//
// The kubeconfig comes from the shoot's owner, who may also control the server behind it: no
// response is trusted to come from an API server.
package providerapi

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// userAgent is the User-Agent header of requests to provider clusters.
const userAgent = "machine-controller-manager-provider-kubevirt"

// Clients are the typed clients of one provider cluster. They share connections and a rate limit,
// and perform no discovery. Send requests with the methods of Objects or with Once, read lists with
// Collect or Some, and watch objects with Objects.WatchObject or Follow.
type Clients struct {
	// Server identifies the provider cluster: the URL of its API server, with its port
	// and path, such as "https://gateway.example.com:443/k8s/clusters/c-1". It is unique
	// per cluster, unless a cluster has several names. Together with Namespace, it
	// identifies the target of a kubeconfig.
	Server string
	// Namespace is the namespace of the kubeconfig's current context.
	Namespace string
	// User is the user that the token claims to be of; empty if it is not a JSON Web Token.
	User string
	// Kubernetes is for Secrets.
	Kubernetes kubernetes.Interface
	// KubeVirt is for VirtualMachines and VirtualMachineInstances.
	KubeVirt kubevirt.Interface
	// CDI is for DataVolumes.
	CDI containerizeddataimporter.Interface
	// Metadata lists objects without their contents.
	Metadata metadata.Interface
	// RetryFor is how long transient failures are retried. If it is zero, a request is sent once.
	RetryFor time.Duration

	// dryRun is the option of Create and Update.
	dryRun []string
}

func clientsFor(config *rest.Config, client *http.Client) (clients *Clients, err error) {
	clients = &Clients{User: kubeconfig.Subject(config.BearerToken)}

	if clients.Kubernetes, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}

	if clients.KubeVirt, err = kubevirt.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}

	if clients.CDI, err = containerizeddataimporter.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}

	if clients.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), client); err != nil {
		return nil, err
	}

	return clients, nil
}

// identityOf returns the identity of a provider cluster: its normalized URL. The path is part of
// it, because gateways put many clusters behind one host.
func identityOf(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the server of the current context is invalid")
	}

	port := parsed.Port()
	if port == "" {
		port = "443"
	}

	identity := parsed.Scheme + "://" + net.JoinHostPort(strings.ToLower(parsed.Hostname()), port) +
		strings.TrimRight(parsed.EscapedPath(), "/")
	if len(identity) > maxServer {
		return "", errors.New("the server of the current context is longer than 1024 bytes; use a shorter URL")
	}

	return identity, nil
}
