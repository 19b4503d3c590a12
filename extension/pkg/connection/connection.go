// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package connection opens the connection of a program in a control plane to its provider cluster, with the
// credentials in files, and reads these again when they change. The loopback proxy and
// cloud-controller-manager call it. It must not know the requests.
package connection

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// rereadAfter is the time after which the files are read again. kubelet takes a minute to update them.
const rereadAfter = 5 * time.Second

// Files are the files with the credentials. Without a kubeconfig, the provider cluster is the cluster in which
// the program runs, and the credentials are those of its pod.
type Files struct {
	Kubeconfig, Token string
}

// In returns the files in a folder that package identity fills. The token's file is beside the kubeconfig.
func In(folder string) Files { return Beside(filepath.Join(folder, mount.KeyKubeconfig)) }

// Beside returns the files of a kubeconfig, which may refer to a token in a file beside it.
func Beside(kubeconfig string) Files {
	if kubeconfig == "" {
		return Files{}
	}

	return Files{Kubeconfig: kubeconfig, Token: filepath.Join(filepath.Dir(kubeconfig), mount.KeyToken)}
}

// Target is the API server of the provider cluster, with the credentials for it.
type Target struct {
	// Server is the URL of the API server.
	Server *url.URL
	// Transport sends requests to it, and bounds the responses.
	Transport http.RoundTripper
	// Namespace is the namespace of the kubeconfig's context; empty without a kubeconfig.
	Namespace string

	close func()
	// kubeconfig and token are the contents of the files from which it was made.
	kubeconfig, token []byte
}

// Source makes the target from the files, again whenever they change. It is safe for concurrent use.
type Source struct {
	files   Files
	servers transport.Servers
	// large limits how many large responses are read at a time.
	large *transport.Semaphores

	mu      sync.Mutex
	current *Target
	read    time.Time
}

// NewSource returns the Source of some files. It connects to these servers only.
func NewSource(files Files, servers transport.Servers) *Source {
	return &Source{files: files, servers: servers, large: transport.NewSemaphores()}
}

// Target returns the target. If the files cannot be used, it returns the one of the last files that could:
// kubelet replaces them one after the other.
func (s *Source) Target() (*Target, error) {
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

// RoundTrip implements http.RoundTripper: it sends a request to the current target, whatever its host is.
func (s *Source) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := s.Target()
	if err != nil {
		return nil, err
	}

	sent := r.Clone(r.Context())
	sent.URL.Scheme = to.Server.Scheme
	sent.URL.Host = to.Server.Host
	sent.URL.Path = strings.TrimSuffix(to.Server.Path, "/") + r.URL.Path
	sent.URL.RawPath = "" // No name has an escaped character.
	sent.Host = ""

	return to.Transport.RoundTrip(sent)
}

// load reads the files, and returns the current target if they have not changed.
func (s *Source) load() (*Target, error) {
	if s.files.Kubeconfig == "" {
		return s.inCluster()
	}

	raw, err := readFile(s.files.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the provider cluster: %w", err)
	}

	token, err := readFile(s.files.Token)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || bytes.Contains(raw, []byte("tokenFile"))) {
		return nil, fmt.Errorf("read the token for the provider cluster: %w", err)
	}

	if c := s.current; c != nil && bytes.Equal(c.kubeconfig, raw) && bytes.Equal(c.token, token) {
		return c, nil
	}

	config, namespace, err := mount.Read(raw, token)
	if err != nil {
		return nil, err
	}

	return s.connect(config, &Target{Namespace: namespace, kubeconfig: raw, token: token})
}

// inCluster returns the target of the pod's own account.
func (s *Source) inCluster() (*Target, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("without a kubeconfig, the provider cluster is the one in which the program runs: %w", err)
	}

	token := []byte(config.BearerToken)
	if c := s.current; c != nil && bytes.Equal(c.token, token) {
		return c, nil
	}

	config.BearerTokenFile = "" // It is read here.

	return s.connect(config, &Target{token: token})
}

// connect completes a target.
func (s *Source) connect(config *rest.Config, to *Target) (*Target, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.New("the server in the kubeconfig of the provider cluster is not a URL")
	}

	servers := s.servers
	if s.files.Kubeconfig == "" {
		servers = transport.AnyServer
	}

	client, base, err := transport.New(config, s.large, servers)
	if err != nil {
		return nil, err
	}

	to.Server = server
	to.Transport = client.Transport
	to.close = base.CloseIdleConnections

	return to, nil
}

func readFile(name string) ([]byte, error) {
	return fs.ReadFile(os.DirFS(filepath.Dir(name)), filepath.Base(name))
}
