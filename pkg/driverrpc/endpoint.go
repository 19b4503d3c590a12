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
	"sync"
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

// Listen starts listening. It replaces a socket that a dead process has left behind, but not one on
// which a process listens.
func (e Endpoint) Listen(ctx context.Context) (net.Listener, error) {
	if !e.Local() {
		return listen(ctx, e.network, e.address)
	}

	if err := e.removeStale(ctx); err != nil {
		return nil, err
	}

	return e.listenPrivately(ctx)
}

func listen(ctx context.Context, network, address string) (net.Listener, error) {
	var config net.ListenConfig

	listener, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}

	return listener, nil
}

// socket is a listener that removes its file when it is closed.
type socket struct {
	net.Listener

	path string
	once sync.Once
}

// Addr implements net.Listener. The embedded listener knows only the first path.
func (s *socket) Addr() net.Addr {
	return &net.UnixAddr{Net: "unix", Name: s.path}
}

// Close implements net.Listener. It removes the file first, and only once: afterwards the file may
// belong to the next process.
func (s *socket) Close() (err error) {
	s.once.Do(func() { err = ignoreMissing(os.Remove(s.path)) })

	return errors.Join(err, s.Listener.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// listenPrivately creates the socket in a private folder and moves it into place once only its
// owner may use it. Connections made before that are served, too.
func (e Endpoint) listenPrivately(ctx context.Context) (net.Listener, error) {
	folder, err := os.MkdirTemp(filepath.Dir(e.address), ".")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // It is empty, or listening has failed.

	made := filepath.Join(folder, "s")

	listener, err := listen(ctx, e.network, made)
	if err != nil {
		return nil, err
	}

	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}

	const ownerOnly = 0o600
	if err := errors.Join(os.Chmod(made, ownerOnly), os.Rename(made, e.address)); err != nil {
		return nil, errors.Join(fmt.Errorf("put the socket into place: %w", err), listener.Close())
	}

	return &socket{Listener: listener, path: e.address}, nil
}

func (e Endpoint) removeStale(ctx context.Context) error {
	found, err := os.Lstat(e.address)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("look for an older socket: %w", err)
	}

	if found.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: remove it, or listen elsewhere", e.address)
	}

	var dialer net.Dialer

	connection, err := dialer.DialContext(ctx, e.network, e.address)
	if err == nil {
		_ = connection.Close() // Nothing was sent.
	}

	// Any other failure means a live process that is merely too busy.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("another process listens on %s", e.address)
	}

	if err := os.Remove(e.address); err != nil {
		return fmt.Errorf("remove the socket of a process that has ended: %w", err)
	}

	return nil
}
