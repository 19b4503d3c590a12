// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// kinds returns the resources of a machine's objects on the provider cluster.
func kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		kubevirtv1.GroupVersion.WithResource("virtualmachines"),
		kubevirtv1.GroupVersion.WithResource("virtualmachineinstances"),
		cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes"),
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		corev1.SchemeGroupVersion.WithResource("secrets"),
	}
}

// list returns the selected objects of all kinds in a namespace.
func list(ctx context.Context, client metadata.Interface, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata

	for _, kind := range kinds() {
		objects, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}

		all = append(all, objects.Items...)
	}

	return all, nil
}

// observedObjects are all objects ever seen in the provider namespace.
type observedObjects struct {
	client    metadata.Interface
	namespace string

	mu   sync.Mutex
	seen map[string]sets.Set[string] // names, by kind
}

// watchObjects watches objects with the suite's role tag until the test ends.
func watchObjects(t *testing.T, config *rest.Config, namespace string) *observedObjects {
	t.Helper()

	client, err := metadata.NewForConfig(config)
	require.NoError(t, err)

	o := &observedObjects{client: client, namespace: namespace, seen: map[string]sets.Set[string]{}}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, func(options *metav1.ListOptions) {
		options.LabelSelector = labels.Set{v1alpha1.TagRole: suiteRole}.String()
	})

	for _, kind := range kinds() {
		o.seen[kind.Resource] = sets.New[string]()
		_, err := factory.ForResource(kind).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { o.add(kind.Resource, object.(metav1.Object).GetName()) },
		})
		require.NoError(t, err)
	}

	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	return o
}

func (o *observedObjects) add(kind, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.seen[kind].Insert(name)
}

// requireMachines requires that at least the wanted number of machines were created, each with
// objects of all kinds with the suite's role tag. This proves that objects missing in the
// ResourcesTracker existed before.
func (o *observedObjects) requireMachines(t *testing.T, want int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()

	for kind, names := range o.seen {
		t.Logf("%d %s were seen", names.Len(), kind)
		require.GreaterOrEqual(t, names.Len(), want, kind)
	}
}

// requireNothingLeft requires that the provider namespace is empty, with or without tags. Only the
// golden image may remain that the suite's MachineClasses share, since they have the same root
// volume: the suite kills the sidecar just after deleting them, during the sweep.
func (o *observedObjects) requireNothingLeft(t *testing.T) {
	t.Helper()

	var (
		left   []string
		images sets.Set[string]
	)

	err := wait.PollUntilContextTimeout(t.Context(), time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		objects, err := list(ctx, o.client, o.namespace, "")
		left, images = nil, sets.New[string]()

		for i := range objects {
			if object := &objects[i]; object.Labels[v1alpha1.LabelGoldenImage] == object.Name {
				images.Insert(object.Name)
			} else {
				left = append(left, object.Kind+" "+object.Name)
			}
		}

		return len(left) == 0, err
	})
	require.NoError(t, err, "left: %s", strings.Join(left, ", "))
	require.LessOrEqual(t, images.Len(), 1, "%v", sets.List(images))
}
