// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// Endpoint is the address of a server: unix:///path/of/socket or tcp://address:port.
type Endpoint struct {
	network, address string
}

// ParseEndpoint parses the address of a server.
func ParseEndpoint(text string) (Endpoint, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", text, err)
	}

	switch {
	case parsed.Scheme == "unix" && parsed.Host == "" && parsed.Path != "":
		return Endpoint{network: "unix", address: parsed.Path}, nil
	case parsed.Scheme == "tcp" && parsed.Port() != "" && parsed.Path == "":
		return Endpoint{network: "tcp", address: parsed.Host}, nil
	default:
		return Endpoint{}, fmt.Errorf("endpoint %q: must be unix:///path/of/socket or tcp://address:port", text)
	}
}

// Local reports whether only programs of the same user on this machine can reach the endpoint.
func (e Endpoint) Local() bool {
	return e.network == "unix"
}

// Listen starts listening. It replaces a socket that a dead process has left behind, but not a socket
// on which another process listens.
func (e Endpoint) Listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig

	if e.Local() {
		if err := e.removeStale(ctx); err != nil {
			return nil, err
		}

		config.Control = ownerOnly
	}

	listener, err := config.Listen(ctx, e.network, e.address)
	if e.Local() && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen: folder %s does not exist: create it, or use a socket in another folder", filepath.Dir(e.address))
	}

	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}

	return listener, nil
}

// ownerOnly restricts a socket to its owner before it has a path: Linux creates the file with the
// mode of the descriptor.
func ownerOnly(_, _ string, socket syscall.RawConn) error {
	var err error

	controlErr := socket.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }) //nolint:gosec // The descriptor is an int.

	return errors.Join(controlErr, err)
}

func (e Endpoint) removeStale(ctx context.Context) error {
	switch info, err := os.Lstat(e.address); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check for a stale socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: remove it, or use another path", e.address)
	}

	connection, err := new(net.Dialer).DialContext(ctx, e.network, e.address)
	if err == nil {
		_ = connection.Close() // Nothing was sent.
	}

	// Any other error means a live process that is too busy.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("another process is already listening on %s", e.address)
	}

	if err := os.Remove(e.address); err != nil {
		return fmt.Errorf("remove the stale socket: %w", err)
	}

	return nil
}
