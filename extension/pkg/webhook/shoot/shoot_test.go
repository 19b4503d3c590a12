// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

const (
	namespace = "shoot--garden-dev--johndoe"
	address   = "10.0.0.1"
)

// profile has a class with zones, one without, and one that the shoots do not have.
const profile = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig", "volumeClasses": [
	{"name": "nvme", "exposeAs": "zonal", "zones": ["a", "b"]}, {"name": "ceph", "exposeAs": "shared"}, {"name": "hidden", "zones": ["c"]}]}`

// apiServer returns the Pod of a kube-apiserver.
func apiServer(name, namespace, ip string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "kubernetes", "role": "apiserver"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
	for _, change := range changes {
		change(pod)
	}

	return pod
}

// shootWith returns the Cluster of a shoot.
func shootWith(t *testing.T, name, config string) *extensionsv1alpha1.Cluster {
	t.Helper()

	object := &gardencorev1beta1.CloudProfile{
		TypeMeta: metav1.TypeMeta{APIVersion: "core.gardener.cloud/v1beta1", Kind: "CloudProfile"},
		Spec:     gardencorev1beta1.CloudProfileSpec{Type: "kubevirt", ProviderConfig: &runtime.RawExtension{Raw: []byte(config)}},
	}
	raw, err := json.Marshal(object)
	require.NoError(t, err)

	return &extensionsv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       extensionsv1alpha1.ClusterSpec{CloudProfile: runtime.RawExtension{Raw: raw}},
	}
}

// seedWith returns a seed that selects Pods by their address, as an API server does.
func seedWith(t *testing.T, functions interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, extensionscontroller.AddToScheme, api.AddToScheme} {
		require.NoError(t, add(scheme))
	}

	byAddress := func(o client.Object) []string {
		pod, ok := o.(*corev1.Pod)
		require.True(t, ok)

		return []string{pod.Status.PodIP}
	}

	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, extensionsv1alpha1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	mapper.Add(extensionsv1alpha1.SchemeGroupVersion.WithKind("Cluster"), meta.RESTScopeRoot)

	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "status.podIP", byAddress).WithInterceptorFuncs(functions).Build()
}

// volume returns a PersistentVolume as csi-provisioner creates it, after changes.
func volume(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "csi.kubevirt.io"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "zonal",
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.kubevirt.io", VolumeHandle: "pvc-1"}},
		},
	}
	for _, change := range changes {
		change(v)
	}

	return v
}

// mutated returns the affinity of the volume after the webhook saw it in a request from an address.
func mutated(t *testing.T, seed client.Client, from string, v, old *corev1.PersistentVolume) *corev1.VolumeNodeAffinity {
	t.Helper()

	var before client.Object
	if old != nil {
		before = old
	}

	m := &mutator{classes: newClasses(seed, logr.Discard())}
	ctx := withSender(t.Context(), &http.Request{RemoteAddr: from})
	require.NoError(t, m.Mutate(ctx, v, before), "an error denies the request, whatever the failure policy")

	return v.Spec.NodeAffinity
}

// TestMutate_Volumes gives the affinity to volumes of classes with zones, and changes no others.
func TestMutate_Volumes(t *testing.T) {
	t.Parallel()

	other := affinityTo([]string{"elsewhere"})
	attached := func(v *corev1.PersistentVolume) { v.Finalizers = []string{"external-attacher/csi-kubevirt-io"} }

	for name, tc := range map[string]struct {
		reason string
		volume *corev1.PersistentVolume
		old    *corev1.PersistentVolume
		want   *corev1.VolumeNodeAffinity
	}{
		"Created": {
			reason: "its pods must stay in the zones",
			volume: volume(),
			want:   affinityTo([]string{"a", "b"}),
		},
		"FirstAttachment": {
			reason: "the extension was down when it was created",
			volume: volume(attached),
			old:    volume(),
			want:   affinityTo([]string{"a", "b"}),
		},
		"AttachedBefore": {
			reason: "its class may have had other zones when it was created",
			volume: volume(attached),
			old:    volume(attached),
		},
		"Affinity": {
			reason: "an affinity is immutable",
			volume: volume(func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = other }),
			want:   other,
		},
		"OtherDriver": {
			reason: "it is not ours",
			volume: volume(func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "nfs.csi.k8s.io" }),
		},
		"NoDriver": {
			reason: "a local volume",
			volume: volume(func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/a"}}
			}),
		},
		"ClassWithoutZones": {
			reason: "it can be attached everywhere",
			volume: volume(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "shared" }),
		},
		"HiddenClass": {
			reason: "the shoot's class of this name is the user's",
			volume: volume(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "hidden" }),
		},
		"NoClass": {
			reason: "a static volume",
			volume: volume(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" }),
		},
		"Deleted": {
			reason: "nothing is scheduled by it any more",
			volume: volume(func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			seed := seedWith(t, interceptor.Funcs{}, apiServer("a", namespace, address), shootWith(t, namespace, profile))
			require.Equal(t, tc.want, mutated(t, seed, address+":1234", tc.volume, tc.old), tc.reason)
		})
	}
}

var errUnreachable = errors.New("unreachable")

// TestMutate_Sender takes the zones from the CloudProfile of the shoot whose API server sent the request.
func TestMutate_Sender(t *testing.T) {
	t.Parallel()

	const other = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig", "volumeClasses": [
		{"name": "nvme", "exposeAs": "zonal", "zones": ["other"]}]}`

	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	notOurs := func(p *corev1.Pod) { p.Labels["role"] = "scheduler" }

	for name, tc := range map[string]struct {
		reason  string
		from    string
		objects []client.Object
		broken  error
		want    []string
	}{
		"IPv4":      {reason: "the usual case", from: address + ":1234", want: []string{"a", "b"}},
		"IPv6":      {reason: "a seed with IPv6", from: "[fd00::1]:1234", want: []string{"other"}},
		"Mapped":    {reason: "a server that listens for both families", from: "[::ffff:" + address + "]:1234", want: []string{"a", "b"}},
		"Unknown":   {reason: "no kube-apiserver", from: "10.0.0.9:1234"},
		"Malformed": {reason: "a Unix socket", from: "@"},
		"Ended": {
			reason:  "an evicted Pod keeps its address",
			from:    address + ":1234",
			want:    []string{"a", "b"},
			objects: []client.Object{apiServer("ended", "shoot--garden-dev--other", address, ended)},
		},
		"OtherProgram": {
			reason:  "another Pod with the address",
			from:    address + ":1234",
			want:    []string{"a", "b"},
			objects: []client.Object{apiServer("scheduler", "shoot--garden-dev--other", address, notOurs)},
		},
		"Ambiguous": {
			reason:  "an affinity to wrong zones cannot be corrected",
			from:    address + ":1234",
			objects: []client.Object{apiServer("b", "shoot--garden-dev--other", address)},
		},
		"NoCluster": {
			reason:  "the virtual garden",
			from:    "10.0.0.2:1234",
			objects: []client.Object{apiServer("virtual-garden", "garden", "10.0.0.2")},
		},
		"NoCloudProfile": {
			reason:  "a Cluster that is not complete",
			from:    "10.0.0.3:1234",
			objects: []client.Object{apiServer("c", "incomplete", "10.0.0.3"), &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "incomplete"}}},
		},
		"InvalidCloudProfile": {
			reason:  "the operator corrects it",
			from:    "10.0.0.4:1234",
			objects: []client.Object{apiServer("d", "invalid", "10.0.0.4"), shootWith(t, "invalid", `{"kind": "Unknown"}`)},
		},
		"SeedDown": {reason: "the API server of the seed does not respond", from: address + ":1234", broken: errUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			functions := interceptor.Funcs{}
			if tc.broken != nil {
				functions.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return tc.broken
				}
			}

			seed := seedWith(t, functions, append(tc.objects,
				apiServer("a", namespace, address), shootWith(t, namespace, profile),
				apiServer("six", "shoot--garden-dev--other", "fd00::1"), shootWith(t, "shoot--garden-dev--other", other),
			)...)

			var want *corev1.VolumeNodeAffinity
			if tc.want != nil {
				want = affinityTo(tc.want)
			}

			require.Equal(t, want, mutated(t, seed, tc.from, volume(), nil), tc.reason)
		})
	}
}

// countingSeed returns a seed that counts the lists, each of which takes a second.
func countingSeed(t *testing.T, lists *atomic.Int32, objects ...client.Object) client.Client {
	t.Helper()

	return seedWith(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists.Add(1)
			<-time.After(time.Second)

			return errors.Join(ctx.Err(), c.List(ctx, list, options...))
		},
	}, objects...)
}

// TestZonesOf_Remembers bounds the reads of a shoot whose users change PersistentVolumes all the time.
func TestZonesOf_Remembers(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		from   string
		want   []string
	}{
		"Known":   {reason: "the API server of a shoot", from: address, want: []string{"a", "b"}},
		"Unknown": {reason: "an API server that is not that of a shoot, or not yet", from: "10.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				lists := &atomic.Int32{}
				errs := 0
				log := funcr.New(func(_, _ string) { errs++ }, funcr.Options{})

				ctx := withSender(t.Context(), &http.Request{RemoteAddr: tc.from + ":1234"})
				known := newClasses(countingSeed(t, lists, apiServer("a", namespace, address), shootWith(t, namespace, profile)), log)

				for range 1000 {
					require.Equal(t, tc.want, known.zonesOf(ctx, "zonal"), tc.reason)
				}

				require.EqualValues(t, 1, lists.Load(), tc.reason)

				<-time.After(validity + time.Second)
				require.Equal(t, tc.want, known.zonesOf(ctx, "zonal"), tc.reason)
				require.EqualValues(t, 2, lists.Load(), "the CloudProfile or the Pod may have changed")

				if tc.want == nil {
					require.Equal(t, 2, errs, "one line for each read")
				} else {
					require.Zero(t, errs)
				}
			})
		})
	}
}

// TestZonesOf_Parallel lets requests that one API server sends at a time share a read, which does not
// end with one of them.
func TestZonesOf_Parallel(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		lists := &atomic.Int32{}
		known := newClasses(countingSeed(t, lists, apiServer("a", namespace, address), shootWith(t, namespace, profile)), logr.Discard())
		ctx, cancel := context.WithCancel(withSender(t.Context(), &http.Request{RemoteAddr: address + ":1234"}))
		found := make(chan []string)

		for range 100 {
			go func() { found <- known.zonesOf(ctx, "zonal") }()
		}

		synctest.Wait()
		cancel()

		for range 100 {
			require.Equal(t, []string{"a", "b"}, <-found)
		}

		require.EqualValues(t, 1, lists.Load())
	})
}
