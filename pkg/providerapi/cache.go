// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options configures the requests to a provider cluster.
type Options struct {
	// QPS and Burst limit the requests per second.
	QPS   float32
	Burst int
	// RetryFor is how long transient failures of the provider cluster are retried within a call. If
	// it is zero, requests are sent once.
	RetryFor time.Duration
	// Servers are the servers of kubeconfigs to which requests may be sent.
	Servers transport.Servers
	// Called, if set, is called for every request when its response begins. It
	// must be safe for concurrent use.
	Called func(Call)
	// WrapTransport, if set, wraps the transport of all requests; it is used by tests.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Cache creates clients from kubeconfigs and caches them by the hash of the kubeconfig's content: a
// rotated kubeconfig gets new clients on its first call. If only its token has changed, they continue to
// use the connections of the older clients: a token that is renewed every few minutes costs no
// handshakes. Otherwise, the idle connections of older clients for the same server and namespace are
// closed. Clients that were unused for an hour are dropped, and the least recently used ones if there
// are too many. It is safe for concurrent use.
type Cache struct {
	options Options
	// large are the semaphores for large responses.
	large *transport.Semaphores
	// parsing deduplicates the parsing of a kubeconfig without
	// blocking calls for other kubeconfigs.
	parsing singleflight.Group
	refused *utilcache.LRUExpireCache

	mu      sync.Mutex
	entries map[hash]*entry
}

// hash is the hash of a kubeconfig's content.
type hash [sha256.Size]byte

// entry holds the clients of one kubeconfig.
type entry struct {
	clients     *Clients
	location    location
	connections connections
	expiries    []kubeconfig.Expiry
	used        time.Time
}

// connections are the connections of one or several clients. A client sends its own credentials with each
// request, so that clients with different tokens can share them.
type connections struct {
	*http.Transport

	// to is the hash of the server and the certificates.
	to hash
}

// location is the server and namespace that a kubeconfig points to.
type location struct {
	server, namespace string
}

// NewCache returns an empty cache.
func NewCache(options Options) *Cache {
	return &Cache{
		options: options,
		large:   transport.NewSemaphores(),
		refused: utilcache.NewLRUExpireCache(maxRefused),
		entries: map[hash]*entry{},
	}
}

// For returns the clients for a kubeconfig. Its error is a spi.Error, which does not quote the
// kubeconfig.
func (c *Cache) For(raw []byte) (*Clients, error) {
	key := hash(sha256.Sum256(raw))
	if found := c.find(key); found != nil {
		return found, nil
	}

	made, err, _ := c.parsing.Do(string(key[:]), func() (any, error) { return c.make(key, raw) })
	if err != nil {
		return nil, &spi.Error{Kind: spi.ErrInvalid, Message: err.Error(), Remedy: "correct the kubeconfig", Kubeconfig: true, Cause: err}
	}

	clients, _ := made.(*Clients)

	return clients, nil
}

// find returns the cached clients for a kubeconfig, or nil if there are none.
func (c *Cache) find(key hash) *Clients {
	c.mu.Lock()
	defer c.mu.Unlock()

	found := c.entries[key]
	if found == nil {
		return nil
	}

	found.used = time.Now()
	c.evict()

	return found.clients
}

// make creates the clients for a kubeconfig, unless they were created in the meantime or the
// kubeconfig was refused before.
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

	c.add(key, made)

	return made.clients, nil
}

func (c *Cache) add(key hash, made *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.logNewLocation(made.location)
	c.closeIdle(made)

	made.used = time.Now()
	c.entries[key] = made
	c.evict()
}

// logNewLocation logs that machines are created in the default namespace, or that the server or
// namespace has changed.
func (c *Cache) logNewLocation(to location) {
	if to.namespace == metav1.NamespaceDefault {
		klog.InfoS("Machines are created in the namespace \"default\" of the provider cluster; set another one in the kubeconfig's context",
			"server", to.server)
	}

	for _, e := range c.entries {
		if e.location == to {
			return
		}
	}

	if len(c.entries) > 0 {
		klog.InfoS("New kubeconfig points to a different server or namespace; Machines keep the address at which they were created",
			"server", to.server, "namespace", to.namespace)
	}
}

// closeIdle closes the idle connections to the server and namespace of new clients that these do not
// share. Clients that are still in use, such as those of another user, open new ones.
func (c *Cache) closeIdle(made *entry) {
	for _, e := range c.entries {
		if e.location == made.location && e.connections != made.connections {
			e.connections.CloseIdleConnections()
		}
	}
}

// evict drops clients that were unused for too long, and the least recently used one if there are
// too many.
func (c *Cache) evict() {
	var (
		oldest hash
		since  = time.Now()
	)

	for key, e := range c.entries {
		if time.Since(e.used) > keepUnused {
			c.drop(key)
		} else if !e.used.After(since) {
			oldest = key
			since = e.used
		}
	}

	if len(c.entries) > maxClients {
		c.drop(oldest)
	}
}

// drop drops clients, and closes their connections if no other clients use them.
func (c *Cache) drop(key hash) {
	dropped := c.entries[key].connections
	delete(c.entries, key)

	for _, e := range c.entries {
		if e.connections == dropped {
			return
		}
	}

	dropped.CloseIdleConnections()
}

// connectionsOf returns the connections for the server and the certificates of a configuration: those
// of other clients, or new ones.
func (c *Cache) connectionsOf(config *rest.Config) (connections, error) {
	to := connectionHash(config)

	if found, ok := c.findConnections(to); ok {
		return found, nil
	}

	made, err := transport.NewConnections(config, c.options.Servers)

	return connections{Transport: made, to: to}, err
}

func (c *Cache) findConnections(to hash) (connections, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, e := range c.entries {
		if e.connections.to == to {
			return e.connections, true
		}
	}

	return connections{}, false
}

// connectionHash returns the hash of all that determines the connections of a configuration.
func connectionHash(config *rest.Config) hash {
	sum := sha256.New()

	for _, part := range [][]byte{[]byte(config.Host), []byte(config.ServerName), config.CAData, config.CertData, config.KeyData} {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(part))) // A hash returns no errors.
		sum.Write(part)
	}

	return hash(sum.Sum(nil))
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

	shared, err := c.connectionsOf(config)
	if err != nil {
		return nil, err
	}

	client, err := transport.NewClient(config, shared.Transport, c.large)
	if err != nil {
		return nil, err
	}

	if client.Transport, err = observing(client.Transport, config.Host, c.options.Called); err != nil {
		return nil, err
	}

	clients, err := clientsFor(config, client)
	if err != nil {
		// The cause may quote the URL.
		return nil, errors.New("the server of the current context is invalid")
	}

	clients.Server = server
	clients.Namespace = namespace
	clients.RetryFor = c.options.RetryFor

	return &entry{
		clients:     clients,
		location:    location{server: server, namespace: namespace},
		connections: shared,
		expiries:    kubeconfig.ExpiriesOf(config),
	}, nil
}
