// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machineIn returns a Machine that came into a phase some seconds after the first.
func machineIn(phase machinev1alpha1.MachinePhase, after int) *machinev1alpha1.Machine {
	return &machinev1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"},
		Status: machinev1alpha1.MachineStatus{CurrentStatus: machinev1alpha1.CurrentStatus{
			Phase:          phase,
			LastUpdateTime: metav1.NewTime(began.Add(time.Duration(after) * time.Second)),
		}},
	}
}

// joins are what is exported.
type joins struct{ waiting, count, seconds int }

func TestJoining(t *testing.T) {
	t.Parallel()

	const pending, running, failed = machinev1alpha1.MachinePending, machinev1alpha1.MachineRunning, machinev1alpha1.MachineFailed

	fresh := machineIn("", 0)
	started := machineIn(pending, 10)
	joined := machineIn(running, 52)
	other := machineIn(running, 52)
	other.UID = types.UID("other")

	tests := map[string]struct {
		reason string
		happen func(*joining)
		// want is how many machines wait, how many have joined, and how long the only one took that did.
		want joins
	}{
		"Fresh":   {"it is the driver's still", func(j *joining) { j.OnAdd(fresh, false) }, joins{0, 0, 0}},
		"Pending": {"it waits", func(j *joining) { j.OnUpdate(fresh, started) }, joins{1, 0, 0}},
		"Joined": {"from the driver's success to the Node", func(j *joining) {
			j.OnUpdate(fresh, started)
			j.OnUpdate(started, joined)
		}, joins{0, 1, 42}},
		"JoinedAfterRestart": {"both times are in the status", func(j *joining) {
			j.OnAdd(started, true)
			j.OnUpdate(started, joined)
		}, joins{0, 1, 42}},
		"JoinedBefore": {"the process before has counted it", func(j *joining) {
			j.OnAdd(joined, true)
			j.OnUpdate(joined, joined)
		}, joins{0, 0, 0}},
		"Healed": {"it had joined", func(j *joining) { j.OnUpdate(machineIn(machinev1alpha1.MachineUnknown, 10), joined) }, joins{0, 0, 0}},
		"Twice": {"a machine joins once", func(j *joining) {
			j.OnUpdate(started, joined)
			j.OnUpdate(started, joined)
		}, joins{0, 1, 42}},
		"Replaced": {"the name is another machine's now", func(j *joining) { j.OnUpdate(started, other) }, joins{0, 0, 0}},
		"Failed": {"it never joined", func(j *joining) {
			j.OnUpdate(fresh, started)
			j.OnUpdate(started, machineIn(failed, 52))
		}, joins{0, 0, 0}},
		"Deleted": {"nobody waits", func(j *joining) {
			j.OnUpdate(fresh, started)
			j.OnDelete(started)
		}, joins{0, 0, 0}},
		"DeletedUnseen": {"the watch was interrupted", func(j *joining) {
			j.OnUpdate(fresh, started)
			j.OnDelete(cache.DeletedFinalStateUnknown{Key: "n/m", Obj: started})
		}, joins{0, 0, 0}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			j := newJoining()
			tc.happen(j)

			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(j.phases))

			families, err := registry.Gather()
			require.NoError(t, err)

			var values joins

			for _, family := range families {
				switch m := family.GetMetric()[0]; family.GetName() {
				case "mcm_kubevirt_machines_in_phase":
					values.waiting = int(m.GetGauge().GetValue())
				case "mcm_kubevirt_machine_phase_duration_seconds":
					values.count = int(m.GetHistogram().GetSampleCount())
					values.seconds = int(m.GetHistogram().GetSampleSum())
				}
			}

			require.Equal(t, tc.want, values, tc.reason)
		})
	}
}

func TestOnlyStatus(t *testing.T) {
	t.Parallel()

	whole := machineIn(machinev1alpha1.MachinePending, 10)
	whole.Spec.ProviderID = "kubevirt://m"
	whole.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}

	kept, err := onlyStatus(whole)
	require.NoError(t, err)
	require.Equal(t, machineIn(machinev1alpha1.MachinePending, 10), kept)
	require.NotEmpty(t, whole.Spec.ProviderID, "the object is the watch's")
}

// silent is a driver that answers nothing.
type silent struct{ driver.Driver }

func (silent) ListMachines(context.Context, *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	return nil, nil //nolint:nilnil // Nobody looks at it.
}

func (silent) GetMachineStatus(context.Context, *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	return nil, nil //nolint:nilnil // Nobody looks at it.
}

func TestLeading_StartsOnFirstCall(t *testing.T) {
	t.Parallel()

	began := 0
	l := &leading{Driver: silent{}, start: sync.OnceFunc(func() { began++ })}

	_, err := l.ListMachines(t.Context(), nil)
	require.NoError(t, err)
	_, err = l.GetMachineStatus(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, began)
}
