package providerapi

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

const (
	// maxClients is how many kubeconfigs' clients are kept. A sidecar serves one shoot, usually with one kubeconfig, of which an old and a
	// new version live side by side during a rotation; a driver over gRPC serves as many shoots as its clients have. Those of one kubeconfig
	// take less than 100 KiB beside their open connections, of which each has 50 KiB more.
	maxClients = 512
	// keepUnused is how long unused clients are kept. machine-controller-manager looks for orphans, with every
	// kubeconfig in use, at least every half hour.
	keepUnused = time.Hour
	// maxRefused is how many kubeconfigs are remembered that cannot be used, and keepRefused how long: parsing one takes up to a second, and
	// machine-controller-manager asks again every few seconds. Their hashes and errors are kept, not their contents.
	maxRefused, keepRefused = 1024, 10 * time.Minute
)

// Options bound what the driver asks of one provider cluster.
type Options struct {
	// QPS and Burst limit the requests per second.
	QPS   float32
	Burst int
	// RetryFor is how long passing failures of the provider cluster are retried inside a call. Without it, requests are sent once.
	RetryFor time.Duration
	// Called, if set, is told of every request when its answer begins. It is called from many goroutines.
	Called func(Call)
	// WrapTransport, if set, sees every request; tests use it.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cache makes clients from kubeconfigs, and keeps them by the hash of the kubeconfig's content: a rotated kubeconfig gets
// clients of its own at its first call. The connections of older ones to the same place are closed then, as soon as they are
// idle; clients that were not used for an hour are dropped, and the oldest ones when there are too many. It is safe for concurrent use.
type Cache struct {
	options Options
	// large are the places of large answers, of all provider clusters together.
	large chan struct{}
	// parsing has each kubeconfig parsed once, however many ask for it, and keeps nobody else waiting.
	parsing singleflight.Group
	refused *utilcache.LRUExpireCache

	mu      sync.Mutex
	entries map[hash]*entry
	// hosts are the places of large answers of each host.
	hosts *lru.Cache
}

// hash is that of a kubeconfig's content.
type hash [sha256.Size]byte

// entry is the clients of one kubeconfig.
type entry struct {
	clients     *Clients
	place       place
	connections *http.Transport
	expiries    []kubeconfig.Expiry
	used        time.Time
}

// place is where a kubeconfig leads to.
type place struct {
	server, namespace string
}

// NewCache returns an empty cache.
func NewCache(options Options) *Cache {
	return &Cache{
		options: options, large: make(chan struct{}, largeAtATime), refused: utilcache.NewLRUExpireCache(maxRefused), entries: map[hash]*entry{},
		hosts: lru.New(maxClients),
	}
}

// For returns the clients for a kubeconfig. Its errors do not quote the kubeconfig.
func (c *Cache) For(raw []byte) (*Clients, error) {
	key := hash(sha256.Sum256(raw))
	if found := c.find(key); found != nil {
		return found, nil
	}

	made, err, _ := c.parsing.Do(string(key[:]), func() (any, error) { return c.make(key, raw) })
	if err != nil {
		return nil, err
	}

	clients, _ := made.(*Clients)

	return clients, nil
}

// find returns the clients for a kubeconfig, or nil if it has none yet.
func (c *Cache) find(key hash) *Clients {
	c.mu.Lock()
	defer c.mu.Unlock()

	found := c.entries[key]
	if found == nil {
		return nil
	}

	found.used = time.Now()
	c.shrink()

	return found.clients
}

// make makes the clients for a kubeconfig, unless that was done in the meantime, or was tried before.
func (c *Cache) make(key hash, raw []byte) (*Clients, error) {
	if found := c.find(key); found != nil {
		return found, nil
	}

	if refused, ok := c.refused.Get(key); ok {
		err, _ := refused.(error)

		return nil, err
	}

	made, err := c.build(raw)
	if err != nil {
		c.refused.Add(key, err, keepRefused)

		return nil, err
	}

	c.keep(key, made)

	return made.clients, nil
}

func (c *Cache) keep(key hash, made *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.announce(made.place)
	c.retire(made.place)

	made.used = time.Now()
	c.entries[key] = made
	c.shrink()
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
		klog.InfoS("New kubeconfig points to a different server or namespace; Machines keep the address at which they were made",
			"server", to.server, "namespace", to.namespace)
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
		oldest hash
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

func (c *Cache) drop(key hash) {
	c.entries[key].connections.CloseIdleConnections()
	delete(c.entries, key)
}

func (c *Cache) build(raw []byte) (*entry, error) {
	config, namespace, err := kubeconfig.RESTConfig(raw)
	if err != nil {
		return nil, err
	}

	server, err := identityOf(config.Host)
	if err != nil {
		return nil, err
	}

	config.UserAgent = userAgent
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.options.QPS, c.options.Burst)
	config.WrapTransport = c.options.WrapTransport

	client, transport, err := connections(config, c.placesOf(config.Host))
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

	clients.Server, clients.Namespace, clients.RetryFor = server, namespace, c.options.RetryFor

	return &entry{
		clients: clients, place: place{server: server, namespace: namespace},
		connections: transport, expiries: kubeconfig.ExpiriesOf(config),
	}, nil
}

// placesOf returns the places of large answers from a host. Every kubeconfig that leads to the host shares them, whatever else it says.
func (c *Cache) placesOf(server string) places {
	host := server
	if parsed, err := url.Parse(server); err == nil {
		host = strings.ToLower(parsed.Host)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	found, ok := c.hosts.Get(host)
	if !ok {
		found = make(chan struct{}, largeOfOne)
		c.hosts.Add(host, found)
	}

	ofCluster, _ := found.(chan struct{})

	return places{ofProcess: c.large, ofCluster: ofCluster}
}
