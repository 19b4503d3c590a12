package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsServer serves the metrics, and /healthz for kubelets, which cannot use a unix socket or
// present client certificates.
type metricsServer struct {
	net.Listener

	http *http.Server
}

func listenForMetrics(ctx context.Context, address string, metrics prometheus.Gatherer) (*metricsServer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}

	const timeout = 10 * time.Second

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	return &metricsServer{
		Listener: listener,
		http:     &http.Server{Handler: mux, ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout},
	}, nil
}

// Serve serves until Close is called.
func (m *metricsServer) Serve() error {
	if err := m.http.Serve(m.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}

	return nil
}

// Close stops the server.
func (m *metricsServer) Close() error {
	return errors.Join(m.http.Close(), ignoreClosed(m.Listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}

	return err
}
