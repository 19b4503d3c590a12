package integration

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// machineStates are the states in which Machines were seen.
type machineStates struct {
	mu   sync.Mutex
	seen []*v1alpha1.Machine
}

// observe adds the Machines of a shoot, until the test ends.
func (m *machineStates) observe(t *testing.T, s *shoot) {
	t.Helper()

	observe(t, s.mcm.MachineV1alpha1().Machines(s.Namespace), &v1alpha1.Machine{}, func(_, now *v1alpha1.Machine) {
		if now == nil {
			return
		}

		m.mu.Lock()
		defer m.mu.Unlock()

		m.seen = append(m.seen, now)
	})
}

// those describes the states for which this is so.
func (m *machineStates) those(so func(*v1alpha1.Machine) bool) []string {
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

// failures are of Machines of other pools than these.
func (m *machineStates) failures(but ...string) []string {
	return m.those(func(seen *v1alpha1.Machine) bool {
		return seen.Status.LastOperation.State == v1alpha1.MachineStateFailed && !slices.Contains(but, seen.Labels["name"])
	})
}

// lapses are of Machines that ran before. A node whose kubelet is silent does not count: those of the lab may be late.
func (m *machineStates) lapses() []string {
	ran := map[string]bool{}

	return m.those(func(seen *v1alpha1.Machine) bool {
		runs := seen.Status.CurrentStatus.Phase == v1alpha1.MachineRunning
		ran[seen.Name] = ran[seen.Name] || runs

		return ran[seen.Name] && !runs && !isSilent(seen)
	})
}

func isSilent(m *v1alpha1.Machine) bool {
	return slices.ContainsFunc(m.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// awaitFailed waits until a Machine has been seen in the phase Failed, whatever has become of it, and requires that it said why.
func (m *machineStates) awaitFailed(t *testing.T, name, why string) {
	t.Helper()

	var failed []string

	eventually(t, name+" has failed", func(context.Context) (bool, error) {
		failed = m.those(func(seen *v1alpha1.Machine) bool {
			return seen.Name == name && seen.Status.CurrentStatus.Phase == v1alpha1.MachineFailed
		})

		return len(failed) > 0, nil
	})

	for _, state := range failed {
		require.Contains(t, state, why)
	}
}
