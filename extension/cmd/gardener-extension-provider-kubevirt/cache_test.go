// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// seed is an API server that has only Clusters: one of each type in turn, named by their numbers. It
// sends them as they are read, so that it takes no memory.
type seed struct {
	types []string
	// profile is the size of a CloudProfile, in bytes.
	profile, clusters int
	// streams is set if the server streams lists.
	streams bool

	mu    sync.Mutex
	lists []string
}

// ServeHTTP implements http.Handler.
func (s *seed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	out := bufio.NewWriter(w)
	defer out.Flush() //nolint:errcheck // The client may hang up.

	w.Header().Set("Content-Type", "application/json")

	switch {
	case query.Get("watch") == "":
		s.mu.Lock()
		s.lists = append(s.lists, query.Encode())
		s.mu.Unlock()

		s.list(out, query.Get("resourceVersion"), query.Get("limit"), query.Get("continue"))
	case query.Get("sendInitialEvents") != "" && !s.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(out, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}`)
	case query.Get("sendInitialEvents") != "":
		for i := range s.clusters {
			fmt.Fprint(out, `{"type": "ADDED", "object": `)
			s.write(out, i)
			fmt.Fprint(out, "}\n")
		}

		fmt.Fprint(out, `{"type": "BOOKMARK", "object": {"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
			"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}}`+"\n")

		fallthrough
	default:
		_ = out.Flush() // see above

		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}

		<-r.Context().Done()
	}
}

// list sends a page as an API server does: from its cache, all objects.
func (s *seed) list(out *bufio.Writer, version, limit, token string) {
	first, _ := strconv.Atoi(token)
	count, _ := strconv.Atoi(limit)
	next := ""

	if version == "0" || count == 0 {
		count = s.clusters
	}

	if first+count < s.clusters {
		next = strconv.Itoa(first + count)
	}

	fmt.Fprintf(out, `{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "ClusterList", "metadata": {"resourceVersion": "7", "continue": %q}, "items": [`, next)

	for i := first; i < min(first+count, s.clusters); i++ {
		if i > first {
			fmt.Fprint(out, ",")
		}

		s.write(out, i)
	}

	fmt.Fprint(out, "]}")
}

// write sends a Cluster. Its CloudProfile has many short texts, as real ones have.
func (s *seed) write(out *bufio.Writer, i int) {
	const image = `{"name": "ubuntu", "versions": [{"version": "24.4.20260101", "architectures": ["amd64"]}]},`

	fmt.Fprintf(out, `{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster", "metadata": {"name": "shoot--a--%d", "resourceVersion": "7",
		"managedFields": [{"manager": "gardenlet", "operation": "Update"}]}, "spec": {`, i)
	fmt.Fprintf(out, `"seed": {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "metadata": {"name": "a"}},
		"shoot": {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": "%d", "namespace": "garden-a"},
			"spec": {"provider": {"type": %q}}, "status": {"technicalID": "shoot--a--%d"}},`, i, s.types[i%len(s.types)], i)
	fmt.Fprint(out, `"cloudProfile": {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "a"}, "spec": {"machineImages": [`)

	for range s.profile / len(image) {
		fmt.Fprint(out, image)
	}

	fmt.Fprint(out, strings.TrimSuffix(image, ",")+`]}}}}`)
}

// newCache returns the extension's cache of that server with all Clusters.
func (s *seed) newCache(t *testing.T, options manager.Options) cache.Cache {
	t.Helper()

	c := cacheOf(t, s, options)

	_, err := c.GetInformer(t.Context(), &extensionsv1alpha1.Cluster{})
	require.NoError(t, err)
	require.True(t, c.WaitForCacheSync(t.Context()))

	return c
}

// cacheOf starts the extension's cache of a server.
func cacheOf(t *testing.T, handler http.Handler, options manager.Options) cache.Cache {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	scheme, err := newScheme()
	require.NoError(t, err)

	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(extensionsv1alpha1.SchemeGroupVersion.WithKind("Cluster"), meta.RESTScopeRoot)
	mapper.Add(extensionsv1alpha1.SchemeGroupVersion.WithKind("Infrastructure"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)

	options.Cache.Scheme = scheme
	options.Cache.Mapper = mapper

	c, err := cache.New(&rest.Config{Host: server.URL}, options.Cache)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // The server waits for its clients.

	go func() { _ = c.Start(ctx) }()

	return c
}

// TestCacheBeforeReady lets the extension become ready when it knows what its webhooks read, and not before.
func TestCacheBeforeReady(t *testing.T) {
	t.Parallel()

	kinds := map[string]string{"clusters": "ClusterList", "infrastructures": "InfrastructureList"}

	for slow := range kinds {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			answers := make(chan struct{})
			c := cacheOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				resource := path.Base(r.URL.Path)

				if resource == slow {
					select {
					case <-answers:
					case <-r.Context().Done():
						return
					}
				}

				w.Header().Set("Content-Type", "application/json")

				if r.URL.Query().Has("watch") {
					w.WriteHeader(http.StatusBadRequest) // This server does not stream lists.

					return
				}

				fmt.Fprintf(w, `{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": %q, "metadata": {"resourceVersion": "7"}, "items": []}`, kinds[resource])
			}), withSmallCache(manager.Options{}))
			ready := gardenerhealthz.NewCacheSyncHealthz(c)

			require.NoError(t, cacheBeforeReady(ctx, c))
			require.Error(t, ready(nil))

			close(answers)
			require.True(t, c.WaitForCacheSync(ctx))
			require.NoError(t, ready(nil))
		})
	}
}

// TestWithSmallCache_ForeignClusters requires the content of other providers' Clusters to be dropped,
// and lists to be read in small parts.
func TestWithSmallCache_ForeignClusters(t *testing.T) {
	t.Parallel()

	const clusters, profile = 45, 100 << 10

	for name, streams := range map[string]bool{"Streams": true, "Pages": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := &seed{types: []string{"aws", "openstack", kubevirt.Type}, profile: profile, clusters: clusters, streams: streams}
			c := server.newCache(t, withSmallCache(manager.Options{}))

			all := &extensionsv1alpha1.ClusterList{}
			require.NoError(t, c.List(t.Context(), all))
			require.Len(t, all.Items, clusters)

			for i := range all.Items {
				name := all.Items[i].Name

				found, err := extensions.GetCluster(t.Context(), c, name)
				require.NoError(t, err)
				require.Empty(t, found.ObjectMeta.ManagedFields)
				require.Contains(t, server.types, found.Shoot.Spec.Provider.Type)
				require.Equal(t, name, "shoot--a--"+found.Shoot.Name)

				if found.Shoot.Spec.Provider.Type == kubevirt.Type {
					require.NotNil(t, found.Seed)
					require.Equal(t, name, found.Shoot.Status.TechnicalID)
					require.Greater(t, len(found.CloudProfile.Spec.MachineImages), 1000)
				} else {
					require.Nil(t, found.Seed)
					require.Nil(t, found.CloudProfile)
					require.Less(t, len(all.Items[i].Spec.Shoot.Raw), 256)
				}
			}

			if streams {
				require.Empty(t, server.lists)
			} else {
				require.Equal(t, []string{"limit=10", "continue=10&limit=10", "continue=20&limit=10", "continue=30&limit=10", "continue=40&limit=10"}, server.lists)
			}
		})
	}
}

// TestWithoutForeignContent drops what only another provider's extension reads.
func TestWithoutForeignContent(t *testing.T) {
	t.Parallel()

	raw := &runtime.RawExtension{Raw: []byte("{}")}
	object := metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "gardenlet"}}}
	status := extensionsv1alpha1.DefaultStatus{ProviderStatus: raw, State: raw, LastOperation: &gardencorev1beta1.LastOperation{Progress: 7}}

	for _, kind := range []string{kubevirt.Type, "aws"} {
		spec := extensionsv1alpha1.DefaultSpec{Type: kind, ProviderConfig: raw}

		for _, object := range []client.Object{
			&extensionsv1alpha1.Infrastructure{
				ObjectMeta: object,
				Spec:       extensionsv1alpha1.InfrastructureSpec{DefaultSpec: spec, Region: "a"},
				Status:     extensionsv1alpha1.InfrastructureStatus{DefaultStatus: status, EgressCIDRs: []string{"a"}},
			},
			&extensionsv1alpha1.ControlPlane{
				ObjectMeta: object,
				Spec:       extensionsv1alpha1.ControlPlaneSpec{DefaultSpec: spec, InfrastructureProviderStatus: raw},
				Status:     extensionsv1alpha1.ControlPlaneStatus{DefaultStatus: status},
			},
			&extensionsv1alpha1.Worker{
				ObjectMeta: object,
				Spec:       extensionsv1alpha1.WorkerSpec{DefaultSpec: spec, Pools: make([]extensionsv1alpha1.WorkerPool, 1)},
				Status:     extensionsv1alpha1.WorkerStatus{DefaultStatus: status, MachineDeployments: make([]extensionsv1alpha1.MachineDeployment, 1)},
			},
			&extensionsv1alpha1.Bastion{
				ObjectMeta: object,
				Spec:       extensionsv1alpha1.BastionSpec{DefaultSpec: spec, UserData: []byte("a")},
				Status:     extensionsv1alpha1.BastionStatus{DefaultStatus: status},
			},
			&machinev1alpha1.MachineClass{ObjectMeta: object, Provider: kind, ProviderSpec: *raw},
		} {
			complete, ok := object.DeepCopyObject().(client.Object)
			require.True(t, ok)

			reduced, err := withoutForeignContent(object)
			require.NoError(t, err)
			require.Empty(t, object.GetManagedFields())

			complete.SetManagedFields(nil)

			if kind == kubevirt.Type {
				require.Equal(t, complete, reduced)
			} else {
				requireReduced(t, reduced)
			}
		}
	}
}

func requireReduced(t *testing.T, object any) {
	t.Helper()

	extension, ok := object.(extensionsv1alpha1.Object)
	if !ok {
		require.Equal(t, &machinev1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Provider: "aws"}, object)

		return
	}

	require.Equal(t, "aws", extension.GetExtensionSpec().GetExtensionType())
	require.Nil(t, extension.GetExtensionSpec().GetProviderConfig())
	require.Nil(t, extension.GetExtensionStatus().GetProviderStatus())
	require.Nil(t, extension.GetExtensionStatus().GetState())
	require.EqualValues(t, 7, extension.GetExtensionStatus().GetLastOperation().Progress, "the predicates compare it")
}

// TestWithoutForeignCredentials keeps only kubeconfigs, and what belongs to them.
func TestWithoutForeignCredentials(t *testing.T) {
	t.Parallel()

	object := metav1.ObjectMeta{Name: "cloudprovider", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "gardenlet"}}}

	for key, want := range map[string]map[string][]byte{
		"kubeconfig":      {"kubeconfig": []byte("a"), "token": []byte("b")},
		"secretAccessKey": nil,
	} {
		reduced, err := withoutForeignCredentials(&corev1.Secret{ObjectMeta: object, Data: map[string][]byte{key: []byte("a"), "token": []byte("b")}})
		require.NoError(t, err)
		require.Equal(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider"}, Data: want}, reduced)
	}
}

// TestDropForeignMachine drops the content of a Machine whose provider ID another driver wrote, and keeps what may belong
// to this provider. The library reads the metadata and the provider ID.
func TestDropForeignMachine(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		providerID string
		dropped    bool
	}{
		"Own": {providerID: "kubevirt://m"}, "Creating": {}, "Foreign": {providerID: "aws:///eu-west-1/i-0123", dropped: true},
	} {
		labels := map[string]string{machinev1alpha1.NodeLabelKey: "n"}
		machine := &machinev1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: labels},
			Spec: machinev1alpha1.MachineSpec{
				ProviderID:       tc.providerID,
				Class:            machinev1alpha1.ClassSpec{Name: "c"},
				NodeTemplateSpec: machinev1alpha1.NodeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
			},
			Status: machinev1alpha1.MachineStatus{Conditions: make([]corev1.NodeCondition, 1)},
		}

		want := machine.DeepCopy()
		if tc.dropped {
			want.Spec.NodeTemplateSpec = machinev1alpha1.NodeTemplateSpec{}
			want.Status = machinev1alpha1.MachineStatus{}
		}

		kept, err := withoutForeignContent(machine)
		require.NoError(t, err, name)
		require.Equal(t, want, kept, name)
	}
}

// TestDropForeignShoot keeps what may belong to this provider.
func TestDropForeignShoot(t *testing.T) {
	t.Parallel()

	for name, shoot := range map[string]string{
		"Missing": "", "Invalid": `{"spec":`, "WithoutType": `{"spec": {}}`, "Own": `{"spec": {"provider": {"type": "kubevirt"}}}`,
	} {
		spec := extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Raw: []byte(shoot)}, CloudProfile: runtime.RawExtension{Raw: []byte("{}")}}
		c := &extensionsv1alpha1.Cluster{Spec: spec}
		dropForeignShoot(c)
		require.Equal(t, spec, c.Spec, name)
	}
}
