package providercluster

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// large limits how many large responses are read at a time, per provider cluster and in total. Only
// the pages of a list, which are dropped one after the other, may be large.
var large = onlyPages()

func onlyPages() *transport.Semaphores {
	s := transport.NewSemaphores()
	s.OnlyPagesLarge = true

	return s
}

// clientOptions returns the options of a client for an API server that is not trusted, and a function
// that closes its idle connections.
func clientOptions(config *rest.Config, servers transport.Servers) (client.Options, func(), error) {
	connection, base, err := transport.New(config, large, servers)
	if err != nil {
		return client.Options{}, nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}

	base.IdleConnTimeout = idleTimeout

	return client.Options{Scheme: scheme, Mapper: mapper(), HTTPClient: connection}, base.CloseIdleConnections, nil
}

// Close closes the connections of a Cluster that is not needed any more. Without it, they are closed
// some seconds after the last request.
func (c *Cluster) Close() {
	if c.closeConnections != nil {
		c.closeConnections()
	}
}

// idleTimeout closes the connections of a reconciliation soon after its last request.
const idleTimeout = 5 * time.Second
