// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	provider "k8s.io/cloud-provider"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// connected returns the Cloud of a provider cluster, with its real connection.
func connected(t *testing.T, handler http.HandlerFunc) *Cloud {
	t.Helper()

	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)

	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, hostile.Kubeconfig(t, server), 0o600))

	config := &Config{
		Kubeconfig:   file,
		Namespace:    namespace,
		LoadBalancer: LoadBalancerConfig{Enabled: true},
		InstancesV2:  InstancesConfig{Enabled: true},
	}
	cloud, err := New(config, clusterName, transport.AnyServer)
	require.NoError(t, err)

	return cloud
}

func respond(w http.ResponseWriter, code int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

// TestCloud_Garbage neither gives a load balancer up nor removes or initializes a Node because of responses that are
// not those of an API server for this object.
func TestCloud_Garbage(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		code       int
		kind, body string
	}{
		"nothing":                  {http.StatusOK, "application/json", `{}`},
		"null":                     {http.StatusOK, "application/json", `null`},
		"a list":                   {http.StatusOK, "application/json", `{"kind":"PodList","apiVersion":"v1"}`},
		"a Status":                 {http.StatusOK, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
		"a gateway's 404":          {http.StatusNotFound, "text/html", "<html>no such route</html>"},
		"404 of another kind":      {http.StatusNotFound, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"m","kind":"namespaces"}}`},
		"an object without labels": {http.StatusOK, "application/json", `{"kind":"Service","apiVersion":"v1","metadata":{"name":"x","namespace":"machines","uid":"u"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cloud := connected(t, func(w http.ResponseWriter, _ *http.Request) { respond(w, tc.code, tc.kind, tc.body) })

			_, _, err := cloud.balancers.GetLoadBalancer(t.Context(), "", web())
			require.Error(t, err)
			require.Error(t, cloud.balancers.EnsureLoadBalancerDeleted(t.Context(), "", web()))

			for _, id := range []string{"", "kubevirt://m"} {
				_, err = cloud.instances.InstanceExists(t.Context(), node(id))
				require.Error(t, err)

				_, err = cloud.instances.InstanceMetadata(t.Context(), node(id))
				require.Error(t, err)
				require.NotErrorIs(t, err, provider.InstanceNotFound)
			}
		})
	}
}

// TestCloud_NotDeleted keeps the finalizer of a Service whose load balancer was not deleted.
func TestCloud_NotDeleted(t *testing.T) {
	t.Parallel()

	cloud := connected(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			respond(w, http.StatusOK, "application/json",
				fmt.Sprintf(`{"kind":"Service","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u","labels":{%q:%q}}}`, name, namespace, labelCluster, clusterName))

			return
		}

		respond(w, http.StatusNotFound, "text/html", "<html>no such route</html>")
	})
	require.Error(t, cloud.balancers.EnsureLoadBalancerDeleted(t.Context(), "", web()))
}

// TestCloud_LargestSlices writes EndpointSlices with the longest names that there are: the connection accepts the
// responses.
func TestCloud_LargestSlices(t *testing.T) {
	t.Parallel()

	const machineCount = 3 * maxEndpoints

	var desired []*discoveryv1.EndpointSlice // The requests are in protobuf.

	writes := 0
	cloud := connected(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			respond(w, http.StatusOK, "application/json", `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"1"}}`)

			return
		}

		created := desired[writes].DeepCopy()
		created.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
		created.UID = uid
		writes++

		body, err := json.Marshal(created)
		if err != nil {
			t.Error(err)
		}

		respond(w, http.StatusCreated, "application/json", string(body))
	})
	b := cloud.balancers
	serving := machines{}
	launchers := make([]launcher, 0, machineCount)

	for i := range machineCount {
		machine := fmt.Sprintf("%063d", i)
		serving[machine] = true
		launchers = append(launchers, launcher{
			machine: machine,
			name:    strings.Repeat("p", 253),
			host:    strings.Repeat("h", 253),
			uid:     uid,
			ips:     []string{fmt.Sprintf("2001:db8:1111:2222:3333:4444:5555:%04x", i+0x1000)},
		})
	}

	b.serving = func(*corev1.Service) (machines, error) { return serving, nil }
	b.launchers = func(context.Context) ([]launcher, error) { return launchers, nil }

	balancer := upstreams()
	balancer.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	desired = slicesOf(balancer, serving, launchers)

	_, err := b.writeEndpoints(t.Context(), local(), balancer)
	require.NoError(t, err)
	require.Equal(t, machineCount/maxEndpoints, writes)
}

// TestNew_ClusterName refuses names that own the objects of others.
func TestNew_ClusterName(t *testing.T) {
	t.Parallel()

	for _, invalid := range []string{"", "a b", strings.Repeat("a", 64)} {
		_, err := New(&Config{Namespace: namespace}, invalid, transport.AnyServer)
		require.ErrorContains(t, err, "--cluster-name", invalid)
	}
}
