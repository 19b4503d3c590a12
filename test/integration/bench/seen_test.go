// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// seen holds when objects first satisfied a condition, by name.
type seen struct {
	mu sync.Mutex
	at map[string]time.Time
}

// opener opens a watch.
type opener func(context.Context, metav1.ListOptions) (watch.Interface, error)

// firstSeen records when objects of a watch first satisfy a condition, until the test ends.
func firstSeen[T metav1.Object](t *testing.T, open opener, holds func(T) bool) *seen {
	t.Helper()

	return firstEvents(t, open, func(event watch.Event) bool {
		object, ok := event.Object.(T)

		return ok && holds(object)
	})
}

// firstGone records when objects of a watch are deleted, until the test ends.
func firstGone(t *testing.T, open opener) *seen {
	t.Helper()

	return firstEvents(t, open, func(event watch.Event) bool { return event.Type == watch.Deleted })
}

func firstEvents(t *testing.T, open opener, holds func(watch.Event) bool) *seen {
	t.Helper()

	s := &seen{at: map[string]time.Time{}}
	options := metav1.ListOptions{AllowWatchBookmarks: true}
	stream, err := open(t.Context(), options)
	require.NoError(t, err)

	go func() {
		for err == nil {
			options.ResourceVersion = s.follow(stream, options.ResourceVersion, holds)
			stream, err = reopen(t.Context(), open, options)
		}
	}()

	return s
}

// follow notes the objects of a watch until it ends, and returns the resource version at which another one goes on.
func (s *seen) follow(stream watch.Interface, version string, holds func(watch.Event) bool) string {
	defer stream.Stop()

	for event := range stream.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if !ok {
			return "" // The error of an expired version.
		}

		version = object.GetResourceVersion()

		if event.Type != watch.Bookmark && holds(event) {
			s.note(object.GetName())
		}
	}

	return version
}

// reopen opens a watch again, which API servers end after at most an hour. It returns an error only when the test ends.
func reopen(ctx context.Context, open opener, options metav1.ListOptions) (stream watch.Interface, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		stream, err = open(ctx, options)

		return err == nil, nil
	})

	return stream, err
}

func (s *seen) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if _, known := s.at[name]; !known {
		s.at[name] = time.Now()
	}
}

// limit bounds the wait for a number of objects.
func limit(many int) time.Duration {
	const each = 3 * time.Second

	return longest + time.Duration(many)*each
}

// await waits until objects were seen, and returns the time of each.
func (s *seen) await(t *testing.T, names []string) map[string]time.Time {
	t.Helper()

	found := map[string]time.Time{}

	harness.Within(t, limit(len(names)), fmt.Sprintf("%d are seen", len(names)), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		for _, name := range names {
			if at, known := s.at[name]; known {
				found[name] = at
			}
		}

		return len(found) == len(names), nil
	})

	return found
}

// since returns the duration from began until each object was seen, in the order of their names.
func (s *seen) since(t *testing.T, began map[string]time.Time) []time.Duration {
	t.Helper()

	names := slices.Sorted(maps.Keys(began))
	at := s.await(t, names)

	var took []time.Duration
	for _, name := range names {
		took = append(took, at[name].Sub(began[name]))
	}

	return took
}

// last waits for the given number of objects and returns when the last of them was seen.
func (s *seen) last(t *testing.T, many int) time.Time {
	t.Helper()

	var at []time.Time

	harness.Within(t, limit(many), fmt.Sprintf("%d are seen", many), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		at = slices.SortedFunc(maps.Values(s.at), time.Time.Compare)

		return len(at) >= many, nil
	})

	return at[many-1]
}

func seenMachines(t *testing.T, s *harness.Shoot, holds func(*v1alpha1.Machine) bool) *seen {
	t.Helper()

	return firstSeen(t, s.MCM.MachineV1alpha1().Machines(s.Namespace).Watch, holds)
}

func seenVirtualMachines(t *testing.T, s *harness.Shoot) *seen {
	t.Helper()

	return firstSeen(t, s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Watch, func(*kubevirtv1.VirtualMachine) bool { return true })
}

func seenInstances(t *testing.T, s *harness.Shoot, holds func(*kubevirtv1.VirtualMachineInstance) bool) *seen {
	t.Helper()

	return firstSeen(t, s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Watch, holds)
}

// seenReady records when Nodes of the target cluster, which all shoots share, are first ready.
func seenReady(t *testing.T, s *harness.Shoot) *seen {
	t.Helper()

	return firstSeen(t, s.Target.CoreV1().Nodes().Watch, func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
}

func made(*v1alpha1.Machine) bool { return true }

func running(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance.Status.Phase == kubevirtv1.Running
}

func unschedulable(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse
	})
}
