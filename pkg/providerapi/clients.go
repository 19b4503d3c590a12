// Package providerapi is the one gate to a provider cluster: every request, list and watch passes it. What a server answers is kept within
// bounds of bytes, nesting, elements, members, numbers and time, requests that fail in a way that may pass are repeated, and errors are told
// in plain terms. pkg/spi/providercluster, pkg/goldenimage and pkg/preflight call it. It must not know what is asked for, nor why.
//
// The kubeconfig comes from the shoot's owner, and so may the server behind it: no answer is believed to be one of an API server.
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
)

// userAgent is how the driver presents itself to provider clusters.
const userAgent = "machine-controller-manager-provider-kubevirt"

// Clients are the typed clients of one provider cluster. They share connections and a rate limit, and do no discovery. Requests are sent
// through Request, Look or Once, lists are read by Collect or Some, and watches are begun by Watch or Follow.
type Clients struct {
	// Server identifies the provider cluster: the URL of its API server, with its port and path, as in
	// "https://gateway.example.com:443/k8s/clusters/c-1". Equal clusters have equal texts, unless they have several names. Together with the
	// namespace it says where a kubeconfig leads to.
	Server string
	// Namespace is that of the kubeconfig's current context.
	Namespace string
	// Kubernetes is for Secrets.
	Kubernetes kubernetes.Interface
	// KubeVirt is for VirtualMachines and VirtualMachineInstances.
	KubeVirt kubevirt.Interface
	// CDI is for DataVolumes.
	CDI containerizeddataimporter.Interface
	// Metadata lists objects without their contents.
	Metadata metadata.Interface
	// RetryFor is for how long passing failures are retried. Without it, a request is sent once.
	RetryFor time.Duration
}

func clientsFor(config *rest.Config, client *http.Client) (clients *Clients, err error) {
	clients = &Clients{}

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

// maxServer bounds the identity of a provider cluster, in bytes: logs, metrics and reports show it.
const maxServer = 1 << 10

// identityOf returns the identity of a provider cluster: its URL in the one form that it has here. The path counts, since gateways put many
// clusters behind one host.
func identityOf(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the server of the current context cannot be used")
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
