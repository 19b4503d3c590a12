// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// MachineStates are the observed states of Machines.
type MachineStates struct {
	mu   sync.Mutex
	seen []*v1alpha1.Machine
}

// Observe records the states of a shoot's Machines until the test ends.
func (m *MachineStates) Observe(t *testing.T, s *Shoot) {
	t.Helper()

	observe(t, s.MCM.MachineV1alpha1().Machines(s.Namespace), &v1alpha1.Machine{}, func(_, now *v1alpha1.Machine) {
		if now == nil {
			return
		}

		m.mu.Lock()
		defer m.mu.Unlock()

		m.seen = append(m.seen, now)
	})
}

// those describes the states that satisfy the condition.
func (m *MachineStates) those(so func(*v1alpha1.Machine) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()

	var states []string

	for _, seen := range m.seen {
		if so(seen) {
			states = append(states, seen.Name+", "+string(seen.Status.CurrentStatus.Phase)+": "+seen.Status.LastOperation.Description)
		}
	}

	return states
}

// Failures describes failed states, except of Machines of these pools.
func (m *MachineStates) Failures(but ...string) []string {
	return m.those(func(seen *v1alpha1.Machine) bool {
		return seen.Status.LastOperation.State == v1alpha1.MachineStateFailed && !slices.Contains(but, seen.Labels["name"])
	})
}

// Lapses describes states in which Machines that ran before no longer run. A node whose kubelet
// sends no heartbeat does not count: the lab's heartbeats may be late.
func (m *MachineStates) Lapses() []string {
	ran := map[string]bool{}

	return m.those(func(seen *v1alpha1.Machine) bool {
		runs := seen.Status.CurrentStatus.Phase == v1alpha1.MachineRunning
		ran[seen.Name] = ran[seen.Name] || runs

		return ran[seen.Name] && !runs && !observer.IsSilent(seen)
	})
}

// AwaitFailed waits until a Machine has been seen in the phase Failed, even if it is gone now, and
// requires its reported reason.
func (m *MachineStates) AwaitFailed(t *testing.T, name, why string) {
	t.Helper()

	var failed []string

	Eventually(t, name+" has failed", func(context.Context) (bool, error) {
		failed = m.those(func(seen *v1alpha1.Machine) bool {
			return seen.Name == name && seen.Status.CurrentStatus.Phase == v1alpha1.MachineFailed
		})

		return len(failed) > 0, nil
	})

	for _, state := range failed {
		require.Contains(t, state, why)
	}
}
