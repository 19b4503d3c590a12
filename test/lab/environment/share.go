// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Several processes can use one lab: its owner shares it over a Unix socket, and others attach to
// it. They reach the clusters directly; the socket carries only the description of the lab, nodes
// for the simulated data plane, which the owner runs, and the end of the lab.

const (
	descriptionPath = "/description"
	lifetimePath    = "/lifetime"
	nodesPath       = "/nodes"
)

// description contains the data with which a process attaches to a lab.
type description struct {
	Dir string
	// ProviderKubeconfig, ControlConfig and TargetConfig are the administrators'.
	ProviderKubeconfig, ControlConfig, TargetConfig string
	Binaries                                        *binaries.Binaries
}

// Share lets other processes attach to the lab through a Unix socket until the lab stops. Only
// processes that may write to the socket's folder must be trusted.
func (l *Lab) Share(ctx context.Context, socket string) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("share the lab: %w", err)
	}
	l.shared = newShareServer(description{
		Dir:                l.Dir,
		ProviderKubeconfig: l.Provider.AdminKubeconfig,
		ControlConfig:      l.Control.AdminKubeconfig,
		TargetConfig:       l.Target.AdminKubeconfig,
		Binaries:           l.Binaries,
	}, l.AddNode)
	go func() { _ = l.shared.Serve(listener) }() // returns when Stop closes the server
	return nil
}

func newShareServer(d description, addNode func(context.Context, kubelet.Node) error) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+descriptionPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(d) // the client reports an incomplete description
	})
	mux.HandleFunc("GET "+lifetimePath, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // if the client is gone, the next line returns at once
		<-r.Context().Done()
	})
	mux.HandleFunc("POST "+nodesPath, func(w http.ResponseWriter, r *http.Request) {
		var node kubelet.Node
		err := json.NewDecoder(r.Body).Decode(&node)
		if err == nil {
			err = addNode(r.Context(), node)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
}

// owner is the process that runs the lab, as an attached process sees it.
type owner struct {
	client http.Client
	life   io.Closer
	ended  chan struct{}
}

// Attach attaches to a lab that another process shares. The processes that the returned Lab starts
// belong to the caller, and end with Stop; the clusters, the data plane and the logs are the
// owner's.
func Attach(ctx context.Context, socket string) (*Lab, error) {
	o, d, err := connect(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("attach to the lab: %w", err)
	}
	l := &Lab{
		Dir:      d.Dir,
		LogDir:   LogDir(d.Dir),
		Binaries: d.Binaries,
		folder:   &folder{path: d.Dir},
		group:    process.NewGroup(LogDir(d.Dir)),
		owner:    o,
	}
	if err := l.attach(d); err != nil {
		return nil, errors.Join(fmt.Errorf("attach to the lab: %w", err), l.Stop(ctx))
	}
	return l, nil
}

func (l *Lab) attach(d *description) (err error) {
	if l.Provider, err = controlplane.Attach("provider", d.ProviderKubeconfig); err != nil {
		return err
	}
	if l.Control, err = controlplane.Attach("control", d.ControlConfig); err != nil {
		return err
	}
	if l.Target, err = controlplane.Attach("target", d.TargetConfig); err != nil {
		return err
	}
	own := fmt.Sprintf("manifests-%d", os.Getpid())
	l.manifests, err = newManifests(filepath.Join(l.folder.data(), own), l.Binaries.Kubectl)
	return err
}

// Ended returns a channel that is closed when the owner of an attached lab stops it or dies. For
// the owner itself the channel is nil.
func (l *Lab) Ended() <-chan struct{} {
	if l.owner == nil {
		return nil
	}
	return l.owner.ended
}

func connect(ctx context.Context, socket string) (*owner, *description, error) {
	var dialer net.Dialer
	o := &owner{ended: make(chan struct{})}
	o.client.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}
	described, err := o.do(ctx, http.MethodGet, descriptionPath, nil)
	if err != nil {
		return nil, nil, err
	}
	defer described.Close() //nolint:errcheck // read-only
	var d description
	if err := json.NewDecoder(described).Decode(&d); err != nil {
		return nil, nil, fmt.Errorf("read its description: %w", err)
	}
	life, err := o.do(context.WithoutCancel(ctx), http.MethodGet, lifetimePath, nil)
	if err != nil {
		return nil, nil, err
	}
	o.life = life
	go func() {
		defer close(o.ended)
		_, _ = io.Copy(io.Discard, life) // ends with the owner, or when leave closes it
	}()
	return o, &d, nil
}

// addNode makes the owner add a host.
func (o *owner) addNode(ctx context.Context, node kubelet.Node) error {
	body, err := json.Marshal(node)
	if err != nil {
		return fmt.Errorf("encode node: %w", err)
	}
	answer, err := o.do(ctx, http.MethodPost, nodesPath, body)
	if err != nil {
		return fmt.Errorf("add node %s: %w", node.Name, err)
	}
	return answer.Close()
}

// leave closes the connection to the owner.
func (o *owner) leave() error {
	err := o.life.Close()
	<-o.ended
	return err
}

// do sends a request and returns the body of a successful answer.
func (o *owner) do(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the owner of the lab: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()                                 //nolint:errcheck // read-only
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // only quoted in the error
		return nil, fmt.Errorf("the owner of the lab answers %s: %s", answer.Status, text)
	}
	return answer.Body, nil
}
