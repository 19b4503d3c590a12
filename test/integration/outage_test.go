package integration

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// line is the connection between the sidecar and a cluster. While it is down, its fault is
// applied to every request.
type line struct {
	down atomic.Pointer[fault]
	hits atomic.Int64
	// carriedOut is called for each call answered by the cluster, before the
	// sidecar gets the answer.
	carriedOut atomic.Pointer[func(call string)]
	// empty makes the control cluster return no Machines to lists and watches.
	empty atomic.Bool

	mu    sync.Mutex
	calls []lineCall
}

// proxy inserts a line between the shoot's sidecar and the provider cluster.
func (s *shoot) proxy(t *testing.T) *line {
	t.Helper()

	l, server := newLine(t, lab.Provider.Config())
	s.ProviderKubeconfig = leadTo(t, s.ProviderKubeconfig, server)

	return l
}

// controlProxy inserts a line between the shoot's sidecar and the control cluster.
func (s *shoot) controlProxy(t *testing.T) *line {
	t.Helper()

	l, server := newLine(t, lab.Control.Config())

	direct, err := os.ReadFile(s.SidecarKubeconfig)
	require.NoError(t, err)

	s.SidecarKubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(s.SidecarKubeconfig, leadTo(t, direct, server), 0o600))

	return l
}

func newLine(t *testing.T, to *rest.Config) (*line, *httptest.Server) {
	t.Helper()

	l, forward := &line{}, forwarding(t, to)
	forward.ModifyResponse = func(resp *http.Response) error {
		if tell := l.carriedOut.Load(); tell != nil {
			(*tell)(callOf(resp.Request.Method, resp.Request.URL))
		}

		return nil
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.calls = append(l.calls, lineCallOf(r))
		l.mu.Unlock()

		if f := l.down.Load(); f != nil {
			l.hits.Add(1)
			f.play(w, r)

			return
		}

		if l.empty.Load() && strings.HasSuffix(r.URL.Path, "/machines") {
			r.URL.RawQuery += "&fieldSelector=metadata.name%3Dnobody"
		}

		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	return l, server
}

// forwarding returns a proxy that forwards requests to a cluster, with the
// credentials of the requests.
func forwarding(t *testing.T, to *rest.Config) *httputil.ReverseProxy {
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

// play answers a request with the fault. A timeout fault sends no answer;
// the client gives up first.
func (f *fault) play(w http.ResponseWriter, r *http.Request) {
	if errors.Is(f.err, os.ErrDeadlineExceeded) {
		_, _ = io.Copy(io.Discard, r.Body) // Only then does the server detect a client's disconnect.
		<-r.Context().Done()
	}

	if f.answer == nil {
		panic(http.ErrAbortHandler) // The server closes the connection.
	}

	status := f.answer.Status()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))

	body, _ := yaml.Marshal(status) // A client that cannot read it sees the code.
	body, _ = yaml.YAMLToJSON(body)
	_, _ = w.Write(body)
}

// leadTo returns the kubeconfig with its server replaced.
func leadTo(t *testing.T, kubeconfig []byte, server *httptest.Server) []byte {
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

// failures collects all failed states shown by the shoot's Machines until the test ends.
func (s *shoot) failures(t *testing.T) func() []string {
	t.Helper()

	states := &machineStates{}
	states.observe(t, s)

	return func() []string { return states.failures() }
}

// TestBlipsNeverShow repeatedly makes the provider cluster unavailable for ten seconds, under
// the real machine-controller-manager. No Machine may ever be seen failed: Gardener would
// abort its reconciliation.
func TestBlipsNeverShow(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"reset before", "503", "webhook"} {
		f := faultNamed(t, name)

		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newShoot(t)
			l := s.proxy(t)
			s.runControllers(t)
			failures := s.failures(t)

			l.down.Store(&f)
			s.applyExample(t)
			l.bringBack(t)
			s.awaitRunning(t, 3)

			require.NoError(t, s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(
				t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))

			l.hits.Store(0)
			l.down.Store(&f)
			l.bringBack(t)
			s.awaitEnd(t)
			require.Empty(t, failures())
		})
	}
}

// bringBack ends a fault ten seconds after the driver's first disturbed request. Since the driver
// hides faults for fifteen seconds, the ten seconds start at once.
func (l *line) bringBack(t *testing.T) {
	t.Helper()

	met := func(context.Context) (bool, error) { return l.hits.Load() > 0, nil }
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, settled, true, met), "the driver asks the cluster")

	const blip = 10 * time.Second

	timer := time.NewTimer(blip)
	<-timer.C
	l.down.Store(nil)
}

// TestOutageAndKill makes the provider cluster unavailable for longer than the driver hides
// faults, and kills the sidecar meanwhile. The Machines report the failure, and run without
// intervention afterwards.
func TestOutageAndKill(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	l := s.proxy(t)

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	first, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar)
	require.NoError(t, err)

	failures := s.failures(t)
	reset := faultNamed(t, "reset before")

	l.down.Store(&reset)
	s.applyExample(t)
	eventually(t, "a Machine says that the provider cluster is away", func(context.Context) (bool, error) {
		return len(failures()) > 0, nil
	})
	require.Contains(t, failures()[0], "ProviderUnavailable")

	require.NoError(t, first.Signal(syscall.SIGKILL))
	<-first.Exited()
	l.down.Store(nil)

	second, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, second.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	s.awaitRunning(t, 3)
	s.awaitEnd(t)
}

func faultNamed(t *testing.T, name string) fault {
	t.Helper()

	for _, f := range faults() {
		if f.name == name {
			return f
		}
	}

	require.Fail(t, "no such fault", name)

	return fault{}
}

// TestEmptyListOfMachines starts the sidecar while the control cluster returns no Machines, as an
// API server may do after an outage. machine-controller-manager then treats every machine as an
// orphan; none may be deleted.
func TestEmptyListOfMachines(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	l := s.proxy(t)

	const many = 5
	for i := range many {
		s.haltedVM(t, fmt.Sprintf("worker-%d", i), map[string]string{
			"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node",
		})
	}

	s.applyExampleClasses(t)
	s.runControllers(t)
	eventually(t, "each machine was taken for an orphan", func(context.Context) (bool, error) {
		return l.asked("list virtualmachines") > 0 && l.asked("get virtualmachines") >= many, nil
	})

	list, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, many)
	require.Zero(t, l.asked("delete virtualmachines"))
}
