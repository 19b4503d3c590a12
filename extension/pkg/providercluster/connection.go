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

// clientOptions returns the options of a client for an API server that is not trusted.
func clientOptions(config *rest.Config) (client.Options, error) {
	connection, base, err := transport.New(config, large)
	if err != nil {
		return client.Options{}, fmt.Errorf("%w: %w", ErrCredentials, err)
	}

	base.IdleConnTimeout = idleTimeout

	return client.Options{Scheme: Scheme, Mapper: mapper(), HTTPClient: connection}, nil
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
