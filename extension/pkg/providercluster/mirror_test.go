// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scripted is a provider cluster whose lists and watches a test chooses.
type scripted struct {
	client.WithWatch

	mu       sync.Mutex
	services []corev1.Service
	listed   int
	// versions are those at which watches began.
	versions []string
	watches  chan *watch.FakeWatcher
	refused  error
}

// List implements client.Reader.
func (s *scripted) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.listed++

	all, _ := list.(*corev1.ServiceList)
	all.Items = slices.Clone(s.services)
	all.ResourceVersion = fmt.Sprint(100 * s.listed)

	return nil
}

// Watch implements client.WithWatch.
func (s *scripted) Watch(_ context.Context, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.refused != nil {
		return nil, s.refused
	}

	all := &client.ListOptions{}
	all.ApplyOptions(options)
	s.versions = append(s.versions, all.AsListOptions().ResourceVersion)

	begun := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	s.watches <- begun

	return begun, nil
}

func (s *scripted) lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.listed
}

func (s *scripted) begun() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Clone(s.versions)
}

func versionedService(name, version string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, UID: "u", ResourceVersion: version}}
}

// mirrored is a Mirror of the versions of Services, whose changes it records.
type mirrored struct {
	*Mirror[*corev1.Service, string]

	provider *scripted
	changes  []string
}

// run runs a Mirror of some Services in a bubble.
func (m *mirrored) run(t *testing.T, services ...string) {
	t.Helper()

	if m.provider == nil {
		m.provider = &scripted{}
	}

	m.provider.watches = make(chan *watch.FakeWatcher, 10)
	m.nextLists(services...)

	text := func(version *string) string {
		if version == nil {
			return "-"
		}

		return *version
	}
	m.Mirror = &Mirror[*corev1.Service, string]{
		Program: ProgramOf(m.provider, "machines"),
		List:    &corev1.ServiceList{},
		Keep:    func(s *corev1.Service) (string, bool) { return s.ResourceVersion, s.Name != "ignored" },
		Changed: func(name string, before, now *string) {
			m.changes = append(m.changes, name+" "+text(before)+" "+text(now))
		},
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		m.Run(ctx)
	}()

	t.Cleanup(func() {
		cancel()

		for len(m.provider.watches) > 0 {
			(<-m.provider.watches).Stop()
		}

		<-ended
	})
	synctest.Wait()
}

// count returns the number of objects of which something is kept.
func (m *mirrored) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()

	return len(m.kept)
}

func (m *mirrored) reason() error {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.failed
}

// nextLists chooses the next lists.
func (m *mirrored) nextLists(names ...string) {
	m.provider.mu.Lock()
	defer m.provider.mu.Unlock()

	m.provider.services = nil
	for _, name := range names {
		m.provider.services = append(m.provider.services, *versionedService(name, "1"))
	}
}

// changed returns the changes since the last call, sorted.
func (m *mirrored) changed() []string {
	all := m.changes
	m.changes = nil

	slices.Sort(all)

	return all
}

// TestMirror_Follow lists objects once, follows them, and continues watches that end.
func TestMirror_Follow(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		m := &mirrored{}
		m.run(t, "a", "b", "ignored")
		require.Equal(t, []string{"a - 1", "b - 1"}, m.changed())

		begun := <-m.provider.watches
		begun.Modify(versionedService("a", "101"))
		begun.Add(versionedService("c", "102"))
		begun.Delete(versionedService("b", "103"))
		begun.Action(watch.Bookmark, versionedService("", "110"))
		synctest.Wait()
		require.Equal(t, []string{"a 1 101", "b 1 -", "c - 102"}, m.changed())

		kept, ok := m.Get("c")
		require.True(t, ok)
		require.Equal(t, "102", kept)

		all, err := m.All()
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"101", "102"}, all)

		begun.Stop()
		time.Sleep(2 * maxPause) //nolint:forbidigo // The clock jumps.
		synctest.Wait()
		require.Equal(t, []string{"100", "110"}, m.provider.begun())
		require.Equal(t, 1, m.provider.lists())
		require.Empty(t, m.changed())
		(<-m.provider.watches).Stop()
	})
}

// TestMirror_Expired lists again when a watch cannot be continued, and reports what was deleted meanwhile.
func TestMirror_Expired(t *testing.T) {
	t.Parallel()

	for reason, last := range map[string]watch.Event{
		"the version has expired":   {Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}},
		"an object of another kind": {Type: watch.Added, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}},
		"an object without version": {Type: watch.Added, Object: versionedService("a", "")},
		"an object without name":    {Type: watch.Added, Object: versionedService("", "1")},
		"a name that is a path":     {Type: watch.Added, Object: versionedService("../a", "1")},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &mirrored{}
				m.run(t, "a", "b")
				m.changed()
				m.nextLists("b", "c")

				begun := <-m.provider.watches
				begun.Action(last.Type, last.Object)
				synctest.Wait()
				begun.Stop()

				time.Sleep(2 * minPause) //nolint:forbidigo // The clock jumps.
				synctest.Wait()
				require.Equal(t, []string{"a 1 -", "b 1 1", "c - 1"}, m.changed())
				require.Equal(t, []string{"100", "200"}, m.provider.begun())
			})
		})
	}
}

// TestMirror_NoWatch lists objects every minute or two without the permission to watch them.
func TestMirror_NoWatch(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		m := &mirrored{provider: &scripted{refused: apierrors.NewForbidden(corev1.Resource("services"), "", errors.New("no"))}}
		m.run(t, "a")

		all, err := m.All()
		require.NoError(t, err, "the objects are known")
		require.Equal(t, []string{"1"}, all)

		time.Sleep(time.Hour) //nolint:forbidigo // The clock jumps.
		synctest.Wait()
		require.Greater(t, m.provider.lists(), 30)
		require.Less(t, m.provider.lists(), 75)
	})
}

// TestMirror_Recovers tries again soon after a watch that lasted, however long the pauses before were.
func TestMirror_Recovers(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		m := &mirrored{provider: &scripted{refused: errors.New("unavailable")}}
		m.run(t, "a")
		time.Sleep(time.Hour) //nolint:forbidigo // The clock jumps.
		synctest.Wait()

		m.provider.mu.Lock()
		m.provider.refused = nil
		m.provider.mu.Unlock()

		time.Sleep(2 * maxPause) //nolint:forbidigo // The clock jumps.

		begun := <-m.provider.watches

		time.Sleep(2 * maxPause) //nolint:forbidigo // The clock jumps.
		begun.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		synctest.Wait()
		(<-m.provider.watches).Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		synctest.Wait()

		listed := m.provider.lists()

		time.Sleep(2 * minPause) //nolint:forbidigo // The clock jumps.
		synctest.Wait()
		require.Equal(t, listed+1, m.provider.lists())
	})
}

// TestMirror_Unread has the reason why the objects are not known.
func TestMirror_Unread(t *testing.T) {
	t.Parallel()

	m := &Mirror[*corev1.Service, string]{List: &corev1.ServiceList{}}
	_, err := m.All()
	require.ErrorContains(t, err, "has not been read yet")

	m.failed = errors.New("forbidden")
	_, err = m.All()
	require.ErrorIs(t, err, m.failed)
}

// TestMirror_Bounded ends a watch whose objects would fill the memory, and keeps what it had.
func TestMirror_Bounded(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		m := &mirrored{}
		m.run(t, "a")

		begun := <-m.provider.watches

		for i := 0; m.reason() == nil; i++ {
			begun.Add(versionedService(fmt.Sprint("b", i), strings.Repeat("v", maxKept/8)))
			synctest.Wait()
		}

		_, err := m.All()
		require.NoError(t, err)
		require.ErrorContains(t, m.reason(), "takes more than")
		require.LessOrEqual(t, m.count(), 9)

		time.Sleep(2 * minPause) //nolint:forbidigo // The clock jumps.
		synctest.Wait()
		require.Equal(t, 1, m.count(), "it lists them again")
		(<-m.provider.watches).Stop()
	})
}
