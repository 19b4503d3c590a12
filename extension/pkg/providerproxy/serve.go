// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The default ports. The chart of the control plane uses them.
const (
	RequestPort = 10271
	HealthPort  = 10272
)

// loopback is the only interface on which the proxy listens: its requests have the credentials of the
// pod's program.
const loopback = "127.0.0.1"

const (
	// headerTimeout bounds the time in which a client sends the header of a request.
	headerTimeout = 10 * time.Second
	// stopTimeout bounds the time for the requests that have begun when the proxy is stopped.
	stopTimeout = 5 * time.Second
)

// Ports are the ports on which the proxy listens.
type Ports struct {
	// Requests is the port for the programs, on the loopback interface; 0 for any free one.
	Requests int
	// Health is the port for kubelet's probes, on all interfaces; 0 for any free one.
	Health int
}

// Serve serves requests and probes until the context ends. It calls listening with the addresses.
func (p *Proxy) Serve(ctx context.Context, ports Ports, listening func(requests, health net.Addr)) error {
	var config net.ListenConfig

	requests, err := config.Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(ports.Requests)))
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}

	health, err := config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(ports.Health)))
	if err != nil {
		return errors.Join(fmt.Errorf("listen for probes: %w", err), requests.Close())
	}

	listening(requests.Addr(), health.Addr())

	servers := map[net.Listener]*http.Server{requests: server(p), health: server(p.probes())}
	ended := make(chan error, len(servers))

	for listener, s := range servers {
		go func() { ended <- s.Serve(listener) }()
	}

	select {
	case <-ctx.Done():
		err = nil
	case err = <-ended:
	}

	return errors.Join(err, stop(ctx, servers))
}

func server(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
}

// stop ends the servers. Watches do not end by themselves.
func stop(ctx context.Context, servers map[net.Listener]*http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()

	var failed error

	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			failed = errors.Join(failed, s.Close())
		}
	}

	return failed
}

// probes answers kubelet: /readyz once there are credentials, whether the provider cluster responds or
// not, and /healthz always.
func (p *Proxy) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})

	return mux
}
