// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// killing is an API server in front of the provider cluster's, which kills the program before or after each write.
type killing struct {
	http.Handler

	mu      sync.Mutex
	program *process.Process
	seen    map[string]int
}

// generated matches the generated end of a name, of the provider cluster's own EndpointSlices.
var generated = regexp.MustCompile(`-[a-z0-9]{5}$`)

// newKilling starts the server.
func newKilling(t *testing.T) (*killing, *httptest.Server) {
	t.Helper()

	config := theSeed.ProviderConfig()
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)

	to, err := url.Parse(config.Host)
	require.NoError(t, err)

	k := &killing{seen: map[string]int{}}
	k.Handler = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization")
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)

	return k, server
}

// ServeHTTP implements http.Handler.
func (k *killing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		k.Handler.ServeHTTP(w, r)

		return
	}

	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	r.Body = io.NopCloser(bytes.NewReader(body))

	// The update that removes the selector differs from the one before it.
	selects := bytes.Contains(body, []byte("cluster.x-k8s.io/role"))
	request := fmt.Sprint(r.Method, " ", generated.ReplaceAllString(r.URL.Path, "/X"), selects)

	k.mu.Lock()
	k.seen[request]++
	times := k.seen[request]
	program := k.program
	k.mu.Unlock()

	const before, after = 1, 2

	switch times {
	case before:
	case after:
		k.Handler.ServeHTTP(httptest.NewRecorder(), r)
	default:
		k.Handler.ServeHTTP(w, r)

		return
	}

	_ = program.Signal(syscall.SIGKILL)
	panic(http.ErrAbortHandler)
}

// maxKills is more often than the program is killed.
const maxKills = 60

// run keeps the program running until the test ends, and returns how often it was killed.
func (k *killing) run(t *testing.T, c seed.CloudController) *atomic.Int32 {
	t.Helper()

	kills := &atomic.Int32{}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())

	t.Cleanup(func() {
		cancel()
		<-ended
	})

	go func() {
		defer close(ended)

		for ctx.Err() == nil {
			k.mu.Lock()
			program, err := theSeed.StartCloudController(ctx, c)
			k.program = program
			k.mu.Unlock()

			if err != nil {
				t.Error(err)

				return
			}

			select {
			case <-program.Exited():
				if kills.Add(1) > maxKills {
					t.Errorf("it ends by itself: %v", program.Err())

					return
				}
			case <-ctx.Done():
				_ = program.Signal(syscall.SIGKILL)
				<-program.Exited()
			}
		}
	}()

	return kills
}

// requireCloudControllerKilled kills the program before and after each of its writes in the life of a load balancer:
// nothing is doubled, the address stays, and nothing is left.
func requireCloudControllerKilled(t *testing.T) {
	t.Helper()

	const cluster = "killed"

	namespace := providerNamespace(t, "ccm-killed")
	address := newMachine(t, namespace, "ccm-killed-1", cluster)
	k, server := newKilling(t)
	kills := k.run(t, seed.CloudController{ClusterName: cluster, Namespace: namespace, Server: server})

	b := newBalanced(t, theSeed.Client, namespace, nil)
	newEndpoints(t, b, "ccm-killed-1")

	created := b.awaits(t, "created", func(*corev1.Service) bool { return true })
	require.NoError(t, theSeed.AssignAddresses(t.Context(), namespace))

	forgetWrites := func() { // Each step has its own kills.
		k.mu.Lock()
		defer k.mu.Unlock()

		clear(k.seen)
	}
	settled := func(local bool) func(*corev1.Service) bool {
		return func(s *corev1.Service) bool {
			return (len(s.Spec.Selector) == 0) == local && (s.Annotations["kubevirt.provider.extensions.gardener.cloud/endpoints"] != "") == local
		}
	}

	forgetWrites()
	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	b.awaits(t, "Local", settled(true))
	eventually(t, func(ctx context.Context) (bool, string) { // Only this program's.
		all := &discoveryv1.EndpointSliceList{}
		err := theSeed.Provider.List(ctx, all, client.InNamespace(namespace))

		return err == nil && len(all.Items) == 1 && all.Items[0].Labels[discoveryv1.LabelManagedBy] == "kubevirt-cloud-controller-manager", fmt.Sprint(len(all.Items), err)
	})
	b.awaitEndpoints(t, address)

	forgetWrites()
	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	last := b.awaits(t, "Cluster", settled(false))
	require.Equal(t, created.UID, last.UID)
	require.NotEmpty(t, last.Status.LoadBalancer.Ingress)

	forgetWrites()
	b.delete(t)

	eventually(t, func(ctx context.Context) (bool, string) {
		balancers, endpoints := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}
		failed := theSeed.Provider.List(ctx, balancers, client.InNamespace(namespace))

		if err := theSeed.Provider.List(ctx, endpoints, client.InNamespace(namespace)); err != nil {
			failed = err
		}

		return failed == nil && len(balancers.Items)+len(endpoints.Items) == 0, fmt.Sprint(len(balancers.Items), len(endpoints.Items), failed)
	})
	require.GreaterOrEqual(t, kills.Load(), int32(16))
	fmt.Fprintf(os.Stderr, "cloud-controller-manager was killed %d times\n", kills.Load())
}

// requireCloudControllerHostile answers each request with the answers of hostile servers, one after the other: the
// program stays below its bound, and neither removes Nodes nor gives up load balancers.
func requireCloudControllerHostile(t *testing.T) {
	t.Helper()

	const (
		services, nodes = 10, 10
		duration        = time.Minute
		most            = 150 << 10 // KiB
	)

	var answered atomic.Int64

	all := hostile.Answers()
	names := make([]string, 0, len(all))

	for name := range all {
		names = append(names, name)
	}

	slices.Sort(names)

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all[names[int(answered.Add(1))%len(names)]].Serve(w, r)
	}))
	t.Cleanup(server.Close)

	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ccm-hostile-", i)}, Spec: corev1.NodeSpec{ProviderID: fmt.Sprint("kubevirt://ccm-hostile-", i)}}
		require.NoError(t, theSeed.Client.Create(t.Context(), node))
		t.Cleanup(func() { require.NoError(t, theSeed.Client.Delete(context.WithoutCancel(t.Context()), node)) })
	}

	balancers := make([]*balanced, 0, services)
	for range services {
		balancers = append(balancers, newBalanced(t, theSeed.Client, "ccm-hostile", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }))
	}

	p := startCloudController(t, seed.CloudController{ClusterName: "hostile", Namespace: "ccm-hostile", Server: server, Env: []string{hostile.MemoryLimit}})

	select {
	case <-p.Exited():
		require.Fail(t, "it ended", p.Err())
	case <-time.After(duration):
	}

	peak := hostile.PeakMemoryOf(t, p.PID())
	fmt.Fprintf(os.Stderr, "cloud-controller-manager with hostile servers: %d MiB at most, %d requests in %s\n", peak>>10, answered.Load(), duration)
	require.Less(t, peak, most)
	require.Greater(t, answered.Load(), int64(len(names)))

	for i := range nodes {
		require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Name: fmt.Sprint("ccm-hostile-", i)}, &corev1.Node{}))
	}

	for _, b := range balancers {
		require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKeyFromObject(b.service), b.service))
		before := client.MergeFrom(b.service.DeepCopy())
		b.service.Finalizers = nil
		require.NoError(t, theSeed.Client.Patch(t.Context(), b.service, before))
		require.NoError(t, theSeed.Client.Delete(t.Context(), b.service))
	}
}
