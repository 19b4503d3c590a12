// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerproxy is the only way of the CSI driver to the provider cluster, in whose API server a
// seed has no trust: the owner of a shoot chooses it. The driver is a plain client, which reads responses
// of any size. The proxy runs in its pod, on the loopback interface. It has the credentials, so that the
// driver needs none, and bounds all responses with pkg/providerapi/transport. Command
// kubevirt-provider-proxy calls it. It must not depend on the program or a kind of objects.
package providerproxy

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/go-logr/logr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

const (
	// maxRequests is the maximum number of requests that are sent at a time; others wait. The programs
	// have fewer workers. Small responses take up to two MiB each.
	maxRequests = 32
	// maxWatches is the same for watches.
	maxWatches = 8
)

// Proxy is the handler for the requests of the programs.
type Proxy struct {
	log     logr.Logger
	source  *connection.Source
	reverse *httputil.ReverseProxy
}

// New returns a proxy with the credentials in a folder, which it reads again when they change. It sends
// requests to these servers only.
func New(folder string, servers transport.Servers, log logr.Logger) *Proxy {
	p := &Proxy{log: log, source: connection.NewSource(connection.In(folder), servers)}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:      rewrite,
		Transport:    &reader{requests: make(chan struct{}, maxRequests), watches: make(chan struct{}, maxWatches), lists: make(chan struct{}, 1)},
		ErrorHandler: p.refuse,
		ErrorLog:     slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelInfo),
	}

	return p
}

// ready returns an error if the proxy cannot send requests, because it has no credentials.
func (p *Proxy) ready() error {
	_, err := p.source.Target()

	return err
}

// targetKey is the context key of a request's target.
type targetKey struct{}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := p.source.Target()
	if err != nil {
		p.refuse(w, r, err)

		return
	}

	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, to)))
}

// rewrite directs a request to the target. Credentials in it would replace those of the target.
func rewrite(r *httputil.ProxyRequest) {
	if to, ok := r.In.Context().Value(targetKey{}).(*connection.Target); ok {
		r.SetURL(to.Server)
	}

	maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool {
		return name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "Impersonate-")
	})

	// The transport bounds only what is not compressed.
	r.Out.Header.Del("Accept-Encoding")
}
