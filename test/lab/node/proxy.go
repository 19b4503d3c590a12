// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// Entrance is a listener on the loopback interface of the machine, through which programs outside reach the API servers of
// an isolated lab: an HTTP CONNECT proxy, the proxy-url of kubeconfigs. A listener stays in the network namespace in which it was
// opened, and Isolate hands it on. Every user of the machine can connect, so it leads to no server without authentication, such as etcd.
type Entrance struct {
	// URL is the proxy's.
	URL string

	server   *http.Server
	admitted sync.Map // the addresses of servers
}

// openEntrance opens a listener, and returns the file to hand on.
func openEntrance() (*os.File, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends at once
	if err != nil {
		return nil, fmt.Errorf("open the entrance of the lab: %w", err)
	}
	defer listener.Close() //nolint:errcheck // the file is a copy
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("open the entrance of the lab: unexpected type %T", listener)
	}
	return tcp.File()
}

// entranceFile is the file descriptor of the listener in the isolated process.
const entranceFile = 3

// ServeEntrance serves the entrance that Isolate has opened, until Close is called. Call it once.
func ServeEntrance() (*Entrance, error) {
	file := os.NewFile(entranceFile, "entrance")
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("serve the entrance of the lab: %w", err)
	}
	_ = file.Close() // the listener is a copy
	e := &Entrance{URL: "http://" + listener.Addr().String()}
	e.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(e.connect)}
	go func() { _ = e.server.Serve(listener) }() // returns when Close is called
	return e, nil
}

// Close ends the proxy. Connections that it has made end with the process.
func (e *Entrance) Close() { _ = e.server.Close() }

// Admit lets clients reach a server in the lab, the URL of a kubeconfig.
func (e *Entrance) Admit(server string) error {
	found, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("admit clients to a server: %w", err)
	}
	e.admitted.Store(found.Host, nil)
	return nil
}

// connect joins a client and a server that Admit has named.
func (e *Entrance) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	if _, admitted := e.admitted.Load(r.Host); !admitted {
		http.Error(w, "only the API servers of the lab", http.StatusForbidden)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close() //nolint:errcheck // both directions have ended
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close() //nolint:errcheck // both directions have ended
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2) //nolint:mnd // one for each direction
	go func() {
		_, _ = io.Copy(server, buffered) // an error only means that a side has closed its connection
		ended <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(client, server)
		ended <- struct{}{}
	}()
	<-ended
}
