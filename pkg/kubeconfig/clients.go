package kubeconfig

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"
)

// cachedClients is how many provider clusters' clients are kept. A sidecar serves one shoot, usually with one kubeconfig, of
// which an old and a new version live side by side during a rotation.
const cachedClients = 32

// userAgent is how the driver presents itself to provider clusters.
const userAgent = "machine-controller-manager-provider-kubevirt"

// Clients are the typed clients of one provider cluster. They share connections and a rate limit, and do no discovery.
type Clients struct {
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
}

// Options bound what the driver asks of one provider cluster.
type Options struct {
	// QPS and Burst limit the requests per second.
	QPS   float32
	Burst int
	// WrapTransport, if set, sees every request; tests and metrics use it.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cache makes clients from kubeconfigs, and keeps them by the hash of the kubeconfig's content: a rotated kubeconfig gets
// clients of its own, the least recently used ones are dropped. It is safe for concurrent use.
type Cache struct {
	options Options
	clients *lru.Cache
}

// NewCache returns an empty cache.
func NewCache(options Options) *Cache {
	return &Cache{options: options, clients: lru.New(cachedClients)}
}

// For returns the clients for a kubeconfig. Its errors do not quote the kubeconfig.
func (c *Cache) For(raw []byte) (*Clients, error) {
	key := sha256.Sum256(raw)
	if cached, ok := c.clients.Get(key); ok {
		if clients, ok := cached.(*Clients); ok {
			return clients, nil
		}
	}

	config, namespace, err := RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	clients, err := c.build(config, namespace)
	if err != nil {
		return nil, err
	}

	if namespace == metav1.NamespaceDefault {
		klog.InfoS("Machines live in the namespace \"default\" of the provider cluster; name another one in the kubeconfig's context",
			"server", config.Host)
	}

	c.clients.Add(key, clients)

	return clients, nil
}

func (c *Cache) build(config *rest.Config, namespace string) (*Clients, error) {
	config.UserAgent = userAgent
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.options.QPS, c.options.Burst)
	config.WrapTransport = c.options.WrapTransport

	client, err := rest.HTTPClientFor(config)
	if err != nil {
		// The cause may quote certificates and keys.
		return nil, fmt.Errorf("the certificates or the key of the current context cannot be used")
	}

	// A redirect would carry the credentials to a host that nobody named.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	clients := &Clients{Namespace: namespace}

	if clients.Kubernetes, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("make Kubernetes client: %w", err)
	}

	if clients.KubeVirt, err = kubevirt.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("make KubeVirt client: %w", err)
	}

	if clients.CDI, err = containerizeddataimporter.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("make CDI client: %w", err)
	}

	if clients.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), client); err != nil {
		return nil, fmt.Errorf("make metadata client: %w", err)
	}

	return clients, nil
}
