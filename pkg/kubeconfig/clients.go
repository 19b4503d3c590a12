package kubeconfig

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"kubevirt.io/client-go/containerizeddataimporter"
	"kubevirt.io/client-go/kubevirt"
)

const (
	// maxClients is how many provider clusters' clients are kept. A sidecar serves one shoot, usually with one kubeconfig, of
	// which an old and a new version live side by side during a rotation.
	maxClients = 32
	// keepUnused is how long clients are kept that nobody asks for. machine-controller-manager looks for orphans, with every
	// kubeconfig in use, at least every half hour.
	keepUnused = time.Hour
)

// userAgent is how the driver presents itself to provider clusters.
const userAgent = "machine-controller-manager-provider-kubevirt"

// Clients are the typed clients of one provider cluster. They share connections and a rate limit, and do no discovery.
type Clients struct {
	// Server is the host, and the port, if the kubeconfig names one, of the API server. Together with the namespace it says where a
	// kubeconfig leads to.
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
}

// Options bound what the driver asks of one provider cluster.
type Options struct {
	// QPS and Burst limit the requests per second.
	QPS   float32
	Burst int
	// Called, if set, is told of every request when its answer begins. It is called from many goroutines.
	Called func(Call)
	// WrapTransport, if set, sees every request; tests use it.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cache makes clients from kubeconfigs, and keeps them by the hash of the kubeconfig's content: a rotated kubeconfig gets
// clients of its own at its first call. The connections of older ones to the same place are closed then, as soon as they are
// idle; the clients go when nobody asked for them for an hour, or when there are too many. It is safe for concurrent use.
type Cache struct {
	options Options

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
}

// entry is the clients of one kubeconfig.
type entry struct {
	clients     *Clients
	place       place
	connections *http.Transport
	expiries    []expiry
	used        time.Time
}

// place is where a kubeconfig leads to.
type place struct {
	server, namespace string
}

// NewCache returns an empty cache.
func NewCache(options Options) *Cache {
	return &Cache{options: options, entries: map[[sha256.Size]byte]*entry{}}
}

// For returns the clients for a kubeconfig. Its errors do not quote the kubeconfig.
func (c *Cache) For(raw []byte) (*Clients, error) {
	key := sha256.Sum256(raw)

	c.mu.Lock()
	defer c.mu.Unlock()

	found, ok := c.entries[key]
	if !ok {
		made, err := c.build(raw)
		if err != nil {
			return nil, err
		}

		c.announce(made.place)
		c.retire(made.place)
		c.entries[key] = made
		found = made
	}

	found.used = time.Now()
	c.shrink()

	return found.clients, nil
}

// announce logs what an operator should know about the place of a new kubeconfig.
func (c *Cache) announce(to place) {
	if to.namespace == metav1.NamespaceDefault {
		klog.InfoS("Machines live in the namespace \"default\" of the provider cluster; name another one in the kubeconfig's context",
			"server", to.server)
	}

	for _, e := range c.entries {
		if e.place == to {
			return
		}
	}

	if len(c.entries) > 0 {
		klog.InfoS("A kubeconfig leads to a server or namespace that none in use does; if it replaces another one, machines made before "+
			"are no longer found", "server", to.server, "namespace", to.namespace)
	}
}

// retire closes what is idle of the connections to a place. Clients that are still in use, as those of another user may be, open
// them again.
func (c *Cache) retire(to place) {
	for _, e := range c.entries {
		if e.place == to {
			e.connections.CloseIdleConnections()
		}
	}
}

// shrink drops the clients that were not used for long, and the least recently used one if there are too many.
func (c *Cache) shrink() {
	var (
		oldest [sha256.Size]byte
		since  = time.Now()
	)

	for key, e := range c.entries {
		if time.Since(e.used) > keepUnused {
			c.drop(key)
		} else if !e.used.After(since) {
			oldest, since = key, e.used
		}
	}

	if len(c.entries) > maxClients {
		c.drop(oldest)
	}
}

func (c *Cache) drop(key [sha256.Size]byte) {
	c.entries[key].connections.CloseIdleConnections()
	delete(c.entries, key)
}

func (c *Cache) build(raw []byte) (*entry, error) {
	config, namespace, err := RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	config.UserAgent = userAgent
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.options.QPS, c.options.Burst)
	config.WrapTransport = c.options.WrapTransport

	client, transport, err := connections(config)
	if err != nil {
		return nil, err
	}

	if client.Transport, err = observing(client.Transport, config.Host, c.options.Called); err != nil {
		return nil, err
	}

	clients, err := clientsFor(config, client)
	if err != nil {
		// The cause may quote the URL.
		return nil, errors.New("the server of the current context cannot be used")
	}

	clients.Server, clients.Namespace = hostOf(config.Host), namespace

	return &entry{
		clients: clients, place: place{server: clients.Server, namespace: namespace},
		connections: transport, expiries: expiriesOf(config),
	}, nil
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

// hostOf returns the host and port of a URL that was judged before.
func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return ""
	}

	return parsed.Host
}
