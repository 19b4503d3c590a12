// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

const (
	// minPause and maxPause bound the time before a list or watch that failed is repeated. Without the permission
	// to watch, objects are listed so often.
	minPause, maxPause = 5 * time.Second, time.Minute
	// watchTime is the least time that a watch asks for, and half of the most.
	watchTime = 5 * time.Minute
)

// Mirror keeps a part T of each object of a kind in the namespace of the provider cluster, and reports changes: it
// lists the objects, watches them from there, and lists them again if a watch cannot be continued. In contrast to an
// informer, neither its lists nor its events keep whole objects.
type Mirror[O client.Object, T any] struct {
	// Program sends the requests.
	Program *Program
	// List is an empty list of the kind.
	List client.ObjectList
	// Labels are those of the objects.
	Labels client.MatchingLabels
	// Keep returns what is kept of an object; nothing if it is not ok.
	Keep func(O) (kept T, ok bool)
	// Changed is called after each event, and for each object of a list, with what was kept before and what is kept
	// now; nil for nothing. It must not block.
	Changed func(name string, before, now *T)

	mu     sync.Mutex
	kept   map[string]T // nil before the first list
	memory int64        // of what is kept, which maxKept bounds
	failed error
}

// named is what is kept of an object with a name.
type named[T any] struct {
	name string
	kept T
}

// Get returns what is kept of an object.
func (m *Mirror[O, T]) Get(name string) (kept T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	kept, ok = m.kept[name]

	return kept, ok
}

// All returns what is kept of all objects; an error if they have not been listed yet.
func (m *Mirror[O, T]) All() ([]T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.kept == nil {
		if m.failed != nil {
			return nil, m.failed
		}

		return nil, fmt.Errorf("%T has not been read yet", m.List)
	}

	all := make([]T, 0, len(m.kept))
	for _, kept := range m.kept {
		all = append(all, kept)
	}

	return all, nil
}

// Run follows the objects until the context ends.
func (m *Mirror[O, T]) Run(ctx context.Context) {
	pause := newPause()
	version := ""

	for ctx.Err() == nil {
		begun := time.Now()
		err := error(nil)

		if version == "" {
			version, err = m.list(ctx)
		}

		if err == nil {
			version, err = m.watch(ctx, version)
		}

		m.mu.Lock()
		m.failed = err
		m.mu.Unlock()

		if err != nil && ctx.Err() == nil {
			klog.ErrorS(Explain(err), "Failed to follow objects of the provider cluster; trying again", "kind", fmt.Sprintf("%T", m.List))
		}

		if time.Since(begun) > maxPause {
			pause = newPause()
		} else {
			m.wait(ctx, pause.Step())
		}
	}
}

// newPause returns the pauses between attempts.
func newPause() wait.Backoff {
	return wait.Backoff{Duration: minPause, Factor: 2, Jitter: 1, Cap: maxPause, Steps: int(maxPause / minPause)}
}

func (*Mirror[O, T]) wait(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()

	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// list reads all objects, and returns the version at which a watch of them begins.
func (m *Mirror[O, T]) list(ctx context.Context) (version string, _ error) {
	source := &versioned{lister: lister{m.Program, m.List, []client.ListOption{client.InNamespace(m.Program.Namespace), m.Labels}}}

	listed, err := pages.Collect(ctx, source, pages.List{Description: fmt.Sprintf("%T", m.List), PerPage: objectsPerPage, MaxKept: maxKept},
		func(object O) (named[T], bool) {
			kept, ok := m.Keep(object)

			return named[T]{object.GetName(), kept}, ok
		})
	if err != nil {
		return "", err
	}

	m.mu.Lock()

	before := m.kept
	m.kept = make(map[string]T, len(listed))
	m.memory = 0

	for _, l := range listed {
		m.kept[l.name] = l.kept
		m.memory += pages.MemoryOf(l)
	}

	m.mu.Unlock()

	for _, l := range listed {
		m.report(l.name, before, &l.kept)
		delete(before, l.name)
	}

	for name := range before {
		m.report(name, before, nil)
	}

	return source.version, nil
}

// watch follows the objects from a version on. It returns the version at which the next watch begins.
func (m *Mirror[O, T]) watch(ctx context.Context, version string) (last string, _ error) {
	events, err := m.Program.watched.Watch(ctx, m.List, client.InNamespace(m.Program.Namespace), m.Labels, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr.To(int64((watchTime + rand.N(watchTime)).Seconds())), //nolint:gosec // It only spreads the load.
	}})
	if err != nil {
		return "", nameError(err)
	}
	defer events.Stop()

	for event := range events.ResultChan() { // It ends with ctx.
		object, ok := event.Object.(O)

		switch {
		case event.Type == watch.Error:
			return "", nameError(apierrors.FromObject(event.Object))
		case !ok || object.GetResourceVersion() == "" || event.Type != watch.Bookmark && (pages.Check(object) != nil || object.GetName() == ""):
			return "", nameError(errIdentity)
		case event.Type != watch.Bookmark:
			if err := m.take(object, event.Type == watch.Deleted); err != nil {
				return "", err
			}
		}

		version = object.GetResourceVersion()
	}

	return version, nil
}

// take keeps the new state of an object.
func (m *Mirror[O, T]) take(object O, deleted bool) error {
	name := object.GetName()
	kept, ok := m.Keep(object)
	now := &kept

	if deleted || !ok {
		now = nil
	}

	before, excess := m.replace(name, now)
	if excess {
		return nameError(fmt.Errorf("%w: what is needed of its objects takes more than %d KiB", pages.ErrTooLarge, maxKept>>10))
	}

	m.report(name, before, now)

	return nil
}

// replace replaces what is kept of an object, and returns what was kept before.
func (m *Mirror[O, T]) replace(name string, now *T) (before map[string]T, excess bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	before = map[string]T{}
	if old, existed := m.kept[name]; existed {
		before[name] = old
		m.memory -= pages.MemoryOf(named[T]{name, old})

		delete(m.kept, name)
	}

	if now != nil {
		m.kept[name] = *now
		m.memory += pages.MemoryOf(named[T]{name, *now})
	}

	return before, m.memory > maxKept
}

func (m *Mirror[O, T]) report(name string, before map[string]T, now *T) {
	if old, existed := before[name]; existed {
		m.Changed(name, &old, now)
	} else {
		m.Changed(name, nil, now)
	}
}

// versioned records the version of the first page of a list.
type versioned struct {
	lister

	version string
}

// List implements pages.Lister.
func (v *versioned) List(ctx context.Context, options metav1.ListOptions) (client.ObjectList, error) {
	page, err := v.lister.List(ctx, options)
	if err == nil && options.Continue == "" {
		v.version = page.GetResourceVersion()
	}

	return page, err
}
