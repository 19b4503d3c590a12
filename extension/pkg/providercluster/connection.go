package providercluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// large limits how many large responses are read at a time, per provider cluster and in total.
var large = transport.NewSemaphores()

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

const (
	// idleTimeout closes the connections of a reconciliation soon after its last request.
	idleTimeout = 5 * time.Second
	// perPage is the number of objects per page: transport bounds the bytes of a response.
	perPage = 50
	// maxPages bounds the pages of a list. No shoot has as many machines.
	maxPages = 100
)

// ListPages reads a list page by page, and calls each after every page.
func (c *Cluster) ListPages(ctx context.Context, list client.ObjectList, each func(), options ...client.ListOption) error {
	for range maxPages {
		if err := c.List(ctx, list, append(options, client.Limit(perPage), client.Continue(list.GetContinue()))...); err != nil {
			return err
		}

		each()

		if list.GetContinue() == "" {
			return nil
		}
	}

	return errors.New(ErrorPrefix + "the list is too long: it has more pages than the extension reads")
}
