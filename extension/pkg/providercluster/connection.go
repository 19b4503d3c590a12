// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// large limits how many large pages of lists are read at a time, per provider cluster and in total.
var large = transport.NewSemaphores()

// clientOptions returns the options of a client for an API server that is not trusted, and a function
// that closes its idle connections.
func clientOptions(config *rest.Config, servers transport.Servers) (client.Options, func(), error) {
	config.QPS = requestsPerSecond
	config.Burst = 2 * requestsPerSecond

	connection, base, err := transport.New(config, large, servers)
	if err != nil {
		return client.Options{}, nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}

	base.IdleConnTimeout = idleTimeout

	return client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: connection}, base.CloseIdleConnections, nil
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
