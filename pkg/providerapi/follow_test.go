// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// listed are the instances of a cluster, which has no watch.
type listed []kubevirtv1.VirtualMachineInstance

// List implements Lister.
func (l listed) List(context.Context, metav1.ListOptions) (*kubevirtv1.VirtualMachineInstanceList, error) {
	return &kubevirtv1.VirtualMachineInstanceList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: l}, nil
}

// Watch implements Watcher.
func (listed) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not implemented")
}

// followed returns the source of an informer that keeps whole instances.
func followed(from listed) *following[*kubevirtv1.VirtualMachineInstance, *kubevirtv1.VirtualMachineInstanceList] {
	return &following[*kubevirtv1.VirtualMachineInstance, *kubevirtv1.VirtualMachineInstanceList]{
		Following: Following{Description: "instances", Transform: func(object any) (any, error) { return object, nil }},
		from:      from,
	}
}

// instance returns an instance with a note of this many bytes.
func instance(name string, size int) *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		Namespace:       "machines",
		UID:             types.UID(name),
		ResourceVersion: "1",
		Annotations:     map[string]string{"note": strings.Repeat("x", size)},
	}}
}

func TestFollowing_List(t *testing.T) {
	t.Parallel()

	f := followed(listed{*instance("a", 0), *instance("b", 0)})
	all, err := f.list(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	list, ok := all.(*metav1.List)
	require.True(t, ok)
	require.Len(t, list.Items, 2)
	require.Equal(t, "9", list.ResourceVersion, "the watch starts there")
	require.Len(t, f.kept.objects, 2)
}

func TestFollowing_ListRefused(t *testing.T) {
	t.Parallel()

	var large listed
	for i := range maxFollowedMemory>>20 + 1 {
		large = append(large, *instance(fmt.Sprintf("i-%d", i), 1<<20))
	}

	for name, tc := range map[string]struct {
		reason string
		from   listed
		want   string
	}{
		"Twice":    {"a server could repeat one object without end", listed{*instance("a", 0), *instance("b", 0), *instance("a", 0)}, "an object is listed twice"},
		"TooLarge": {"the cache holds them all", large, "or more than 24 MiB of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := followed(tc.from)
			_, err := f.list(t.Context(), metav1.ListOptions{})
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Empty(t, f.kept.objects, "the cache has none of them")
		})
	}
}

func TestFollowing_Take(t *testing.T) {
	t.Parallel()

	f := followed(nil)
	event := func(kind watch.EventType, object runtime.Object) watch.Event {
		return watch.Event{Type: kind, Object: object}
	}

	require.Equal(t, watch.Added, f.take(event(watch.Added, instance("a", 1<<20))).Type)

	one := f.kept.memory
	require.Greater(t, one, int64(1<<20))

	require.Equal(t, watch.Modified, f.take(event(watch.Modified, instance("a", 1<<20))).Type)
	require.Equal(t, one, f.kept.memory, "the new state replaces the old one")

	require.Equal(t, watch.Added, f.take(event(watch.Added, instance("b", 1<<20))).Type)
	require.Equal(t, 2*one, f.kept.memory)

	require.Equal(t, watch.Deleted, f.take(event(watch.Deleted, instance("b", 0))).Type)
	require.Equal(t, one, f.kept.memory, "a deleted object takes no memory")
	require.Len(t, f.kept.objects, 1)

	require.Equal(t, watch.Bookmark, f.take(event(watch.Bookmark, instance("c", 0))).Type)
	require.Len(t, f.kept.objects, 1, "a bookmark has no object")

	refused := f.take(event(watch.Modified, instance("a", maxFollowedMemory)))
	require.Equal(t, watch.Error, refused.Type)

	status, ok := refused.Object.(*metav1.Status)
	require.True(t, ok)
	require.Equal(t, metav1.StatusReasonRequestEntityTooLarge, status.Reason)
	require.Contains(t, status.Message, "or more than 24 MiB of them")
}

func TestLedger_Add(t *testing.T) {
	t.Parallel()

	l := &ledger{}
	for i := range maxFollowed {
		require.NoError(t, l.add(instance(fmt.Sprint(i), 0)))
	}

	require.ErrorIs(t, l.add(instance("more", 0)), ErrListTooLarge)

	exact := &ledger{}
	require.NoError(t, exact.add(instance("a", 0)))
	exact.memory = maxFollowedMemory
	require.NoError(t, exact.add(instance("a", 0)), "the bound itself is allowed")

	exact.memory++
	require.ErrorIs(t, exact.add(instance("a", 0)), ErrListTooLarge)
}
