// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// Servers are the servers to which a client may connect.
type Servers int

const (
	// AnyServer are all servers: a client may run in its provider cluster, or beside it.
	AnyServer Servers = iota
	// ExternalServers are the servers that kubeconfig.CheckInternalServer and CheckInternalAddress accept:
	// a client in a seed must not call servers of the seed for the author of a kubeconfig.
	ExternalServers
)

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialTo returns the function that opens connections to a server, or an error if the client may not connect
// to it. proxy is the proxy of the process.
func dialTo(server string, proxy func(*http.Request) (*url.URL, error), servers Servers) (dialFunc, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if servers == AnyServer {
		return dialer.DialContext, nil
	}

	parsed, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("the server of the current context is invalid")
	}

	if err := kubeconfig.CheckInternalServer(server); err != nil {
		return nil, err
	}

	if host := strings.TrimRight(strings.ToLower(parsed.Hostname()), "."); host != "" && host == strings.ToLower(ownAPIServer()) {
		return nil, errOwnAPIServer
	}

	if via, err := proxy(&http.Request{URL: parsed}); err == nil && via != nil {
		return dialer.DialContext, nil // The operator's proxy resolves names, and has its own rules.
	}

	dialer.ControlContext = refuseInternal

	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, absolute(address))
	}, nil
}

// errOwnAPIServer is the error of a server that is the API server of the client's own cluster.
var errOwnAPIServer = &kubeconfig.InternalServerError{Kind: "the API server in the cluster of the client"}

// ownAPIServer returns the host of the API server that Kubernetes names to each container; empty outside of
// a cluster.
func ownAPIServer() string { return os.Getenv("KUBERNETES_SERVICE_HOST") }

// isOwnAPIServer reports whether an address is one of this API server.
func isOwnAPIServer(ctx context.Context, address netip.Addr) bool {
	return ownAPIServer() != "" && slices.Contains(ownNames.addresses(ctx, net.DefaultResolver.LookupNetIP), address.Unmap())
}

// ownNames has the addresses of the names of this API server: in a seed that is a shoot, a webhook
// replaces the address in the environment by another one, or by a name.
var ownNames resolved

// resolved has addresses for a minute, and fewer of them for some seconds after a failure.
type resolved struct {
	mu    sync.Mutex
	known []netip.Addr
	until time.Time
}

// lookup is net.Resolver.LookupNetIP.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

func (r *resolved) addresses(ctx context.Context, find lookup) []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()

	if time.Now().Before(r.until) {
		return r.known
	}

	const patience, again = 2 * time.Second, 10 * time.Second

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var found []netip.Addr

	r.until = time.Now().Add(time.Minute)

	for _, host := range []string{ownAPIServer(), "kubernetes.default.svc"} {
		of, err := find(ctx, "ip", host)
		if err != nil {
			found = append(found, r.known...)
			r.until = time.Now().Add(again)
		}

		for _, address := range of {
			found = append(found, address.Unmap())
		}
	}

	slices.SortFunc(found, netip.Addr.Compare)
	r.known = slices.Compact(found)

	return r.known
}

// refuseInternal implements net.Dialer.ControlContext. The address is the one to which the dialer is about to
// connect: whatever a name resolves to, and however often that changes.
func refuseInternal(ctx context.Context, _, address string, _ syscall.RawConn) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the resolved address of the server is invalid: %w", err)
	}

	if err := kubeconfig.CheckInternalAddress(resolved.Addr()); err != nil {
		return err
	}

	if isOwnAPIServer(ctx, resolved.Addr()) {
		return errOwnAPIServer
	}

	return nil
}

// absolute returns an address whose name is not completed with the search domains of a pod, with which
// NAME.NAMESPACE would be a service of its cluster.
func absolute(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address // The dialer reports it.
	}

	if _, err := netip.ParseAddr(host); err == nil || strings.HasSuffix(host, ".") {
		return address
	}

	return net.JoinHostPort(host+".", port)
}
