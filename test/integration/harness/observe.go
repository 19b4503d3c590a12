// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// observable is a typed client of one kind of objects.
type observable[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// observe calls changed for each change of each object, one at a time, until the test ends.
// The state before a creation and the state after a deletion are nil. It returns after all
// existing objects have been seen.
func observe[T any, L runtime.Object](t *testing.T, api observable[L], example *T, changed func(before, now *T)) {
	t.Helper()

	kind, ok := any(example).(runtime.Object)
	require.True(t, ok)

	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, o)
		},
	}, kind, 0, nil)

	handler, err := informer.AddEventHandler(observer.Handler(changed))
	require.NoError(t, err)

	var run sync.WaitGroup

	run.Go(func() { informer.RunWithContext(t.Context()) })
	t.Cleanup(run.Wait)
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), handler.HasSynced))
}
