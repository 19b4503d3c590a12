// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// rereadAfter is the time after which the files are read again. kubelet takes a minute to update them.
const rereadAfter = 5 * time.Second

// target is the API server of the provider cluster, with the credentials for it.
type target struct {
	server *url.URL
	trip   http.RoundTripper
	close  func()

	// kubeconfig and token are the files from which it was made.
	kubeconfig, token []byte
}

// source makes the target from the mounted files, again whenever they change.
type source struct {
	folder  string
	servers transport.Servers
	// large limits how many large responses are read at a time.
	large *transport.Semaphores

	mu      sync.Mutex
	current *target
	read    time.Time
}

// get returns the target. If the files cannot be used, it returns the one of the last files that could:
// kubelet replaces them one after the other.
func (s *source) get() (*target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.current != nil && time.Since(s.read) < rereadAfter {
		return s.current, nil
	}

	next, err := s.load()
	if err != nil && s.current == nil {
		return nil, err
	}

	s.read = time.Now()

	if err == nil && next != s.current {
		if s.current != nil {
			s.current.close()
		}

		s.current = next
	}

	return s.current, nil
}

// load reads the files, and returns the current target if they have not changed.
func (s *source) load() (*target, error) {
	raw, err := fs.ReadFile(os.DirFS(s.folder), mount.KeyKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the provider cluster: %w", err)
	}

	token, err := fs.ReadFile(os.DirFS(s.folder), mount.KeyToken)
	if err != nil {
		return nil, fmt.Errorf("read the token for the provider cluster: %w", err)
	}

	if c := s.current; c != nil && bytes.Equal(c.kubeconfig, raw) && bytes.Equal(c.token, token) {
		return c, nil
	}

	config, err := mount.RESTConfig(raw, token)
	if err != nil {
		return nil, err
	}

	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.New("the server in the kubeconfig of the provider cluster is not a URL")
	}

	client, base, err := transport.New(config, s.large, s.servers)
	if err != nil {
		return nil, err
	}

	return &target{server: server, trip: client.Transport, close: base.CloseIdleConnections, kubeconfig: raw, token: token}, nil
}
