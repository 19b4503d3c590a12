// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// lineCall is a request sent over a line.
type lineCall struct {
	what        string // as returned by CallOf
	method, uri string
}

func lineCallOf(r *http.Request) lineCall {
	return lineCall{what: CallOf(r.Method, r.URL), method: r.Method, uri: r.URL.RequestURI()}
}

// Calls returns all calls so far, as named by CallOf.
func (l *Line) Calls() []string {
	var names []string
	for _, made := range l.callsOf(func(lineCall) bool { return true }) {
		names = append(names, made.what)
	}

	return names
}

// Count returns the number of calls so far.
func (l *Line) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return len(l.calls)
}

// Asked returns how often a call, as named by CallOf, was made.
func (l *Line) Asked(call string) int {
	return len(l.callsOf(func(made lineCall) bool { return made.what == call }))
}

// Named returns the objects named in such calls, skipping the given number of first calls.
func (l *Line) Named(call string, but int) []string {
	made := l.callsOf(func(made lineCall) bool { return made.what == call })

	names := make([]string, 0, len(made))
	for _, c := range made[but:] {
		names = append(names, path.Base(c.uri))
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// Written returns the writing calls whose URI contains this name.
func (l *Line) Written(name string) []string {
	var calls []string
	for _, c := range l.callsOf(func(made lineCall) bool { return made.method != http.MethodGet && strings.Contains(made.uri, name) }) {
		calls = append(calls, c.method+" "+c.uri)
	}

	return calls
}

func (l *Line) callsOf(which func(lineCall) bool) []lineCall {
	l.mu.Lock()
	defer l.mu.Unlock()

	var calls []lineCall

	for _, made := range l.calls {
		if which(made) {
			calls = append(calls, made)
		}
	}

	return calls
}

// Line is the connection between the sidecar and a cluster. While it is down, its fault is
// applied to every request.
type Line struct {
	Down atomic.Pointer[Fault]
	Hits atomic.Int64
	// CarriedOut is called for each call answered by the cluster, before the
	// sidecar gets the answer.
	CarriedOut atomic.Pointer[func(call string)]
	// Empty makes the control cluster return no Machines to lists and watches.
	Empty atomic.Bool

	// relay and losses belong to a distant line.
	relay  *relay
	losses losses

	mu    sync.Mutex
	calls []lineCall
}

// ProxyProvider inserts a line between the shoot's sidecar and the provider cluster.
func (s *Shoot) ProxyProvider(t *testing.T) *Line {
	t.Helper()

	l, server := newLine(t, lab.Provider.Config())
	s.ProviderKubeconfig = RedirectKubeconfig(t, s.ProviderKubeconfig, server)

	return l
}

// ProxyControl inserts a line between the shoot's sidecar and the control cluster.
func (s *Shoot) ProxyControl(t *testing.T) *Line {
	t.Helper()

	l, server := newLine(t, lab.Control.Config())

	direct, err := os.ReadFile(s.SidecarKubeconfig)
	require.NoError(t, err)

	s.SidecarKubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(s.SidecarKubeconfig, RedirectKubeconfig(t, direct, server), 0o600))

	return l
}

func newLine(t *testing.T, to *rest.Config) (*Line, *httptest.Server) {
	t.Helper()

	l := &Line{}
	server := httptest.NewUnstartedServer(l.handler(t, to))
	server.StartTLS()
	t.Cleanup(server.Close)

	return l, server
}

// handler forwards requests to a cluster.
func (l *Line) handler(t *testing.T, to *rest.Config) http.Handler {
	t.Helper()

	forward := NewForwarder(t, to)
	forward.ModifyResponse = func(resp *http.Response) error {
		if tell := l.CarriedOut.Load(); tell != nil {
			(*tell)(CallOf(resp.Request.Method, resp.Request.URL))
		}

		return loseResponse(resp)
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.calls = append(l.calls, lineCallOf(r))
		l.mu.Unlock()

		if f := l.Down.Load(); f != nil {
			l.Hits.Add(1)
			f.play(w, r)

			return
		}

		if l.Empty.Load() && strings.HasSuffix(r.URL.Path, "/machines") {
			r.URL.RawQuery += "&fieldSelector=metadata.name%3Dnobody"
		}

		l.losses.serve(forward, w, r)
	})
}

// NewForwarder returns a proxy that forwards requests to a cluster, with the
// credentials of the requests.
func NewForwarder(t *testing.T, to *rest.Config) *httputil.ReverseProxy {
	t.Helper()

	target, err := url.Parse(to.Host)
	require.NoError(t, err)

	through, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: to.CAData}})
	require.NoError(t, err)

	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     through,
		FlushInterval: -1, // Watches are streams.
		// A killed sidecar aborts its requests.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

// RedirectKubeconfig returns the kubeconfig with its server replaced.
func RedirectKubeconfig(t *testing.T, kubeconfig []byte, server *httptest.Server) []byte {
	t.Helper()

	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)

	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	cluster.Server = server.URL
	cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	require.NotContains(t, string(raw), base64.StdEncoding.EncodeToString(lab.Provider.Config().CAData))

	return raw
}

// Failures collects all failed states shown by the shoot's Machines until the test ends.
func (s *Shoot) Failures(t *testing.T) func() []string {
	t.Helper()

	states := &MachineStates{}
	states.Observe(t, s)

	return func() []string { return states.Failures() }
}

// BringBack ends a fault five seconds after the driver's first disturbed request. The driver hides faults for
// fifteen seconds, in which it repeats a request more and more rarely: two attempts are left.
func (l *Line) BringBack(t *testing.T) {
	t.Helper()

	met := func(context.Context) (bool, error) { return l.Hits.Load() > 0, nil }
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, Settled, true, met), "the driver sends requests to the cluster")

	const blip = 5 * time.Second

	timer := time.NewTimer(blip)
	<-timer.C
	l.Down.Store(nil)
}
