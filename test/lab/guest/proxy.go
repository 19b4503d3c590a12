// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// proxy is an HTTP CONNECT proxy, through which an API server reaches the guests' kubelets by the names
// of their Nodes. It refuses all other destinations.
type proxy struct {
	server *http.Server
}

// startProxy serves a Unix socket. find returns the address of a Node's kubelet.
func startProxy(ctx context.Context, socket string, find func(node string) (string, bool)) (*proxy, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("start the proxy to kubelets: %w", err)
	}
	p := &proxy{server: &http.Server{ReadHeaderTimeout: time.Minute, Handler: connector(find)}}
	go func() { _ = p.server.Serve(listener) }() // returns when close is called
	return p, nil
}

func (p *proxy) close() { _ = p.server.Close() }

func connector(find func(node string) (string, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, _, err := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect || err != nil {
			http.Error(w, "only CONNECT NODE:PORT", http.StatusMethodNotAllowed)
			return
		}
		address, found := find(node)
		if !found {
			http.Error(w, "no guest has the name "+node, http.StatusBadGateway)
			return
		}
		var dialer net.Dialer
		kubelet, err := dialer.DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer kubelet.Close() //nolint:errcheck // both directions have ended
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer client.Close() //nolint:errcheck // both directions have ended
		if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		join(client, buffered, kubelet)
	})
}

// join copies in both directions until one of them ends.
func join(client net.Conn, buffered io.Reader, kubelet net.Conn) {
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(kubelet, buffered) // an error only means that a side has closed its connection
		ended <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(client, kubelet)
		ended <- struct{}{}
	}()
	<-ended
}
