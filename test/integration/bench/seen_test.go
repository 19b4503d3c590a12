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
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// seen holds when objects first satisfied a condition, by name.
type seen struct {
	mu sync.Mutex
	at map[string]time.Time
}

// firstSeen records when objects of a watch first satisfy a condition, until the test ends.
func firstSeen[T metav1.Object](t *testing.T, stream watch.Interface, err error, holds func(T) bool) *seen {
	t.Helper()

	return firstEvents(t, stream, err, func(event watch.Event) bool {
		object, ok := event.Object.(T)

		return ok && holds(object)
	})
}

// firstGone records when objects of a watch are deleted, until the test ends.
func firstGone(t *testing.T, stream watch.Interface, err error) *seen {
	t.Helper()

	return firstEvents(t, stream, err, func(event watch.Event) bool { return event.Type == watch.Deleted })
}

func firstEvents(t *testing.T, stream watch.Interface, err error, holds func(watch.Event) bool) *seen {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(stream.Stop)

	s := &seen{at: map[string]time.Time{}}

	go func() {
		for event := range stream.ResultChan() {
			if object, ok := event.Object.(metav1.Object); ok && holds(event) {
				s.note(object.GetName())
			}
		}
	}()

	return s
}

func (s *seen) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if _, known := s.at[name]; !known {
		s.at[name] = time.Now()
	}
}

// waitFor waits until the given number of objects were seen, and returns the time of each.
func (s *seen) waitFor(t *testing.T, many int) map[string]time.Time {
	t.Helper()

	found := map[string]time.Time{}

	harness.Within(t, longest, fmt.Sprintf("%d are seen", many), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		for name, at := range s.at {
			found[name] = at
		}

		return len(found) >= many, nil
	})

	return found
}

// since returns the duration from began until each object was seen.
func (s *seen) since(t *testing.T, began map[string]time.Time) []time.Duration {
	t.Helper()

	var took []time.Duration

	harness.Within(t, longest, fmt.Sprintf("%d are seen", len(began)), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		took = nil

		for name, from := range began {
			if at, known := s.at[name]; known {
				took = append(took, at.Sub(from))
			}
		}

		return len(took) == len(began), nil
	})

	return took
}

// last waits for the given number of objects and returns when the last of them was seen.
func (s *seen) last(t *testing.T, many int) time.Time {
	t.Helper()

	at := slices.SortedFunc(maps.Values(s.waitFor(t, many)), time.Time.Compare)

	return at[many-1]
}

func seenMachines(t *testing.T, s *harness.Shoot, holds func(*v1alpha1.Machine) bool) *seen {
	t.Helper()

	stream, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, holds)
}

func seenVirtualMachines(t *testing.T, s *harness.Shoot) *seen {
	t.Helper()

	stream, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, func(*kubevirtv1.VirtualMachine) bool { return true })
}

func seenInstances(t *testing.T, s *harness.Shoot, holds func(*kubevirtv1.VirtualMachineInstance) bool) *seen {
	t.Helper()

	stream, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, holds)
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
