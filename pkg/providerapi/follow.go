// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Source lists and watches one kind of object.
type Source[L runtime.Object] interface {
	Lister[L]
	Watcher
}

// Following describes the objects to follow.
type Following struct {
	// Description names the objects in errors.
	Description string
	// Labels is their label selector.
	Labels string
	// Transform returns the part of an object that is cached.
	Transform cache.TransformFunc
	// IsRelevant reports whether a change of an object is relevant.
	IsRelevant func(before, now any) bool
	// OnChange is called after every relevant change. It must not block.
	OnChange func()
	// OnError is called with the reason whenever objects cannot be
	// observed. The error is safe to show.
	OnError func(ctx context.Context, err error)
}

// Follow returns an informer for all objects of one kind with the given labels. It lists, watches
// and retries, with a backoff of at most half a minute. Its cache is bounded: if a server exceeds
// the bound, its objects are not followed, and OnError is called.
func Follow[O Object, L runtime.Object](from Source[L], example O, f Following) (cache.SharedIndexInformer, error) {
	following := &following[O, L]{Following: f, from: from}
	source := &cache.ListWatch{ListWithContextFunc: following.list, WatchFuncWithContext: following.watch}
	informer := cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})

	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) { f.OnError(ctx, Explain(err)) })
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { f.OnChange() },
			UpdateFunc: func(before, now any) {
				if f.IsRelevant(before, now) {
					f.OnChange()
				}
			},
			DeleteFunc: func(any) { f.OnChange() },
		})
	}

	if err != nil {
		return nil, spi.Errorf(spi.ErrUnavailable, "prepare a watch: %w", err)
	}

	return informer, nil
}

// following is the source of an informer. It passes no more to the
// informer than the cache may hold.
type following[O Object, L runtime.Object] struct {
	Following

	from Source[L]

	mu   sync.Mutex
	kept ledger
}

// list implements cache.ListWithContextFunc. It reads page by page and retains only the part of
// each object that Transform returns.
func (f *following[O, L]) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()

	kept := ledger{}
	all := &metav1.List{}
	source := &versioned[L]{Lister: f.from}

	err := pages.Each(ctx, source, List{Labels: f.Labels, PerPage: followedPerPage, MaxCost: maxFollowedCost},
		func(object runtime.Object) error {
			less, err := f.keep(object, &kept)
			all.Items = append(all.Items, runtime.RawExtension{Object: less})

			if err == nil && len(kept.objects) < len(all.Items) {
				err = fmt.Errorf("%w: an object is listed twice", ErrListTooLarge)
			}

			return err
		})
	if err != nil {
		return nil, explained("list "+f.Description, err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.kept = kept
	all.ResourceVersion = source.version

	return all, nil
}

// watch implements cache.WatchFuncWithContext. It refuses a watch that begins with a list, as an
// API server without support for such watches does, so that the informer lists page by page.
func (f *following[O, L]) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "lists are read page by page"),
		})
	}

	opts.LabelSelector = f.Labels

	begun, err := f.from.Watch(ctx, opts)
	if err != nil {
		err = explained("watch "+f.Description, err)
		// The informer retries, and reports only failures that are not transient.
		if isTransient(err) {
			f.OnError(ctx, err)
		}

		return nil, err
	}

	return filtered(begun, f.take), nil
}

// take reduces the object of an event to the part that is cached. An event that exceeds the bounds
// ends the watch, after which the informer lists again.
func (f *following[O, L]) take(event watch.Event) watch.Event {
	f.mu.Lock()
	defer f.mu.Unlock()

	event = plainEvent[O](event)

	switch event.Type {
	case watch.Added, watch.Modified:
		less, err := f.keep(event.Object, &f.kept)
		if err != nil {
			return watch.Event{
				Type: watch.Error,
				Object: &metav1.Status{
					Status:  metav1.StatusFailure,
					Code:    http.StatusRequestEntityTooLarge,
					Reason:  metav1.StatusReasonRequestEntityTooLarge,
					Message: err.Error(),
				},
			}
		}

		event.Object = less
	case watch.Deleted:
		f.kept.remove(event.Object)
	case watch.Error, watch.Bookmark:
	}

	return event
}

// keep returns the part of an object that is cached, and adds it to the ledger.
func (f *following[O, L]) keep(object runtime.Object, to *ledger) (runtime.Object, error) {
	less, err := f.Transform(object)
	if err != nil {
		return nil, err
	}

	kept, ok := less.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("read %s: unexpected type %T", f.Description, less)
	}

	return kept, to.add(kept)
}

// ledger tracks the memory of each object in an informer's cache, in bytes.
type ledger struct {
	objects map[string]int64
	memory  int64
}

// add records an object or its new state.
func (l *ledger) add(object runtime.Object) error {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return err
	}

	if l.objects == nil {
		l.objects = map[string]int64{}
	}

	memory := pages.MemoryOf(object) + int64(len(key))
	l.memory += memory - l.objects[key]
	l.objects[key] = memory

	if len(l.objects) > maxFollowed || l.memory > maxFollowedMemory {
		return fmt.Errorf("%w: there are more than %d objects, or more than %d MiB of them", ErrListTooLarge, maxFollowed, maxFollowedMemory>>20)
	}

	return nil
}

func (l *ledger) remove(object runtime.Object) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}

	l.memory -= l.objects[key]
	delete(l.objects, key)
}

// versioned records the resource version of the first page of a list; the watch starts there.
type versioned[L runtime.Object] struct {
	Lister[L]

	version string
}

// List implements Lister.
func (v *versioned[L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	page, err := v.Lister.List(ctx, opts)
	if err != nil {
		return page, err
	}

	if list, err := meta.ListAccessor(page); err == nil && opts.Continue == "" {
		v.version = list.GetResourceVersion()
	}

	return page, nil
}
