package providercluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// follow returns an informer that calls changed after every change. It lists, watches and begins again by itself, with a back-off.
func (s *session) follow(source *cache.ListWatch, example runtime.Object, changed func()) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})

	err := informer.SetTransform(withoutBallast)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(s.logWatchError)
	}

	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() },
			UpdateFunc: func(before, now any) {
				if matters(before, now) {
					changed()
				}
			},
			DeleteFunc: func(any) { changed() },
		})
	}

	if err != nil {
		return nil, fmt.Errorf("%w: prepare a watch: %w", spi.ErrUnavailable, err)
	}

	return informer, nil
}

// logWatchError says why drains of provider nodes are not seen at the moment.
func (s *session) logWatchError(ctx context.Context, _ *cache.Reflector, err error) {
	klog.FromContext(ctx).Error(inPlainTerms(err), "Evacuations are not seen while this lasts; if a right is missing, see kubernetes/evacuation",
		"server", s.clients.Server, "namespace", s.clients.Namespace)
}

func (s *session) instancesWith(selector string) *cache.ListWatch {
	return selected(selector,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.instances().List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return s.instances().Watch(ctx, o)
		},
	)
}

func (s *session) migrationsWith(selector string) *cache.ListWatch {
	return selected(selector,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.migrations().List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return s.migrations().Watch(ctx, o)
		},
	)
}

// instancesPerPage bounds a page of whole instances. Each may list a hundred interfaces of its guest, one for every pod of the shoot
// with its addresses, and an answer with 20,000 elements in its arrays is refused (pkg/kubeconfig).
const instancesPerPage = 25

// selected lists in pages, which an informer does not do by itself, so that no answer outgrows its bound.
func selected(selector string, page cache.ListWithContextFunc, begin cache.WatchFuncWithContext) *cache.ListWatch {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()

		return page(ctx, o)
	})
	pages.PageSize = instancesPerPage

	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, _, err := pages.ListWithAlloc(ctx, metav1.ListOptions{LabelSelector: selector})

			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector

			return begin(ctx, o)
		},
	}
}

// matters says whether anything has changed that evacuation reads: instances tell of their guests all the time.
func matters(before, now any) bool {
	was, ok := before.(*kubevirtv1.VirtualMachineInstance)
	is, also := now.(*kubevirtv1.VirtualMachineInstance)

	return !ok || !also || !equality.Semantic.DeepEqual(was.Status, is.Status) || !is.DeletionTimestamp.Equal(was.DeletionTimestamp)
}

// withoutBallast keeps of an instance what evacuation reads.
func withoutBallast(object any) (any, error) {
	instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
	if !ok {
		return object, nil
	}

	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: instance.Name, Namespace: instance.Namespace, UID: instance.UID, ResourceVersion: instance.ResourceVersion,
			DeletionTimestamp: instance.DeletionTimestamp,
		},
		Spec: kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: instance.Spec.EvictionStrategy},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: instance.Status.Phase, NodeName: instance.Status.NodeName, EvacuationNodeName: instance.Status.EvacuationNodeName,
			Conditions: instance.Status.Conditions, MigrationState: instance.Status.MigrationState,
		},
	}, nil
}
