// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// gather returns the metrics of a plugin by their names and label values: the value of a counter or
// gauge, and the count of a histogram.
func gather(t *testing.T, p *kubevirt.MachinePlugin) map[string]float64 {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, p.RegisterMetrics(registry))

	families, err := registry.Gather()
	require.NoError(t, err)

	values := map[string]float64{}

	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := []string{family.GetName()}
			for _, label := range m.GetLabel() {
				key = append(key, label.GetValue())
			}

			values[strings.Join(key, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}

	return values
}

// added returns the increase of a plugin's metrics during a run.
func added(t *testing.T, p *kubevirt.MachinePlugin, run func()) map[string]float64 {
	t.Helper()

	before := gather(t, p)

	run()

	grown := gather(t, p)
	for key, value := range before {
		if grown[key] -= value; grown[key] == 0 {
			delete(grown, key)
		}
	}

	for key, value := range grown {
		if value == 0 {
			delete(grown, key)
		}
	}

	return grown
}

// operationOf is how the methods are named in machine-controller-manager's metrics.
var operationOf = map[string]string{
	"CreateMachine": "create_machine", "InitializeMachine": "initialize_machine", "GetMachineStatus": "get_machine_status",
	"DeleteMachine": "delete_machine", "ListMachines": "list_machine",
}

const (
	answered = "mcm_cloud_api_driver_request_duration_seconds "
	refused  = "mcm_cloud_api_driver_requests_failed_total "
)

// TestCountCall runs before the package's parallel tests, because these metrics are global.
func TestCountCall(t *testing.T) {
	for method, run := range calls() {
		for _, err := range []error{nil, spi.ErrNotFound, spi.ErrUninitialized, errors.New("a surprise")} {
			r := validRequest()
			spied := &recorder{err: err}
			p := newPlugin(spied)
			r.machine.Status.CurrentStatus.Phase = v1alpha1.MachineRunning // Phases are another test's.

			want := answered + operationOf[method] + " kubevirt"

			var got map[string]float64

			if err == nil {
				got = added(t, p, func() { require.NoError(t, run(t.Context(), p, r)) })
			} else {
				var code int

				got = added(t, p, func() { code = int(codeOf(t, run(t.Context(), p, r))) })
				want = refused + strconv.Itoa(code) + " " + operationOf[method] + " kubevirt"
			}

			delete(got, "mcm_kubevirt_machines_in_phase accepted")
			delete(got, "mcm_kubevirt_machines_in_phase image")

			for key := range got {
				if strings.HasPrefix(key, "mcm_kubevirt_machine_longest_in_phase_seconds") {
					delete(got, key)
				}
			}

			require.Equal(t, map[string]float64{want: 1}, got, "%s: %v", method, err)
		}
	}
}

func TestGetVolumeIDs_Metrics(t *testing.T) { //nolint:paralleltest // the metrics are global
	p := newPlugin(&recorder{})

	require.Equal(t, map[string]float64{answered + "get_volume_ids kubevirt": 1}, added(t, p, func() {
		_, err := p.GetVolumeIDs(t.Context(), &driver.GetVolumeIDsRequest{})
		require.NoError(t, err)
	}))
}

func TestCountCall_CutOff(t *testing.T) { //nolint:paralleltest // the metrics are global
	p := newPlugin(&recorder{err: spi.ErrUnavailable})
	r := validRequest()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	require.Empty(t, added(t, p, func() { require.Error(t, calls()["DeleteMachine"](ctx, p, r)) }))

	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()

	require.Empty(t, added(t, p, func() { require.Error(t, calls()["DeleteMachine"](early, p, r)) }), "the client went before its deadline")
}

// TestCountCall_Cancelled tests a call over gRPC that hangs: the client waits until its deadline and
// then cancels the call.
func TestCountCall_Cancelled(t *testing.T) { //nolint:paralleltest // the metrics are global
	p := newPlugin(&recorder{err: spi.ErrUnavailable})
	r := validRequest()
	want := map[string]float64{refused + "14 delete_machine kubevirt": 1}

	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()

	require.Equal(t, want, added(t, p, func() { require.Error(t, calls()["DeleteMachine"](late, p, r)) }))

	byClient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	cancel()
	require.ErrorIs(t, byClient.Err(), context.Canceled)
	require.Equal(t, want, added(t, p, func() { require.Error(t, calls()["DeleteMachine"](byClient, p, r)) }))
}

func TestCountRequest(t *testing.T) { //nolint:paralleltest // the metrics are global
	const requests, failures, durations = "mcm_cloud_api_requests_total", "mcm_cloud_api_requests_failed_total", "mcm_cloud_api_api_request_duration_seconds"

	p := newPlugin(&recorder{})

	require.Equal(t, map[string]float64{requests + " kubevirt a_get": 2, durations + " kubevirt a_get": 1, failures + " kubevirt a_get": 1},
		added(t, p, func() {
			kubevirt.CountRequest("a_get", time.Second, false)
			kubevirt.CountRequest("a_get", time.Second, true)
		}))

	kubevirt.CountRequest("b_get", time.Second, false)
	require.Contains(t, gather(t, p), failures+" kubevirt b_get", "the first failure must be an increase")
}

// registerByDefault registers the metrics as the sidecar does: once in a process, however often a
// test runs.
var registerByDefault = sync.OnceValue(func() error {
	return newPlugin(&recorder{}).RegisterMetrics(prometheus.DefaultRegisterer)
})

// TestRegisterMetrics_AlreadyRegistered registers metrics where machine-controller-manager's library
// has registered its own, as in the sidecar.
func TestRegisterMetrics_AlreadyRegistered(t *testing.T) {
	t.Parallel()

	registry := prometheus.NewRegistry()
	require.NoError(t, newPlugin(&recorder{}).RegisterMetrics(prometheus.WrapRegistererWith(nil, registry)))
	require.Error(t, newPlugin(&recorder{}).RegisterMetrics(registry), "a second driver in one process would count other machines")
	require.NoError(t, registerByDefault())
}

// look is a result of the PluginSPI's GetMachineStatus.
type look struct {
	recorder

	reached spi.Reached
}

func (l *look) GetMachineStatus(context.Context, *spi.ObserveMachineInput) (*spi.Machine, error) {
	return &spi.Machine{Name: "m", Reached: l.reached}, l.err
}

func TestPhaseDurations(t *testing.T) {
	t.Parallel()

	const (
		waits    = "mcm_kubevirt_machines_in_phase "
		measured = "mcm_kubevirt_machine_phase_duration_seconds "
	)

	made := time.Now().Add(-time.Minute)
	created := spi.Reached{Created: made.Add(time.Second)}
	disks := spi.Reached{Created: created.Created, Disks: made.Add(20 * time.Second)}
	scheduled := spi.Reached{Created: created.Created, Disks: disks.Disks, Scheduled: made.Add(30 * time.Second)}
	running := spi.Reached{Created: created.Created, Disks: disks.Disks, Scheduled: scheduled.Scheduled, Running: made.Add(32 * time.Second)}
	all := map[string]float64{measured + "accepted": 1, measured + "image": 1, measured + "scheduled": 1, measured + "running": 1}

	tests := map[string]struct {
		reason string
		err    error
		seen   spi.Reached
		change func(*v1alpha1.Machine)
		want   map[string]float64
	}{
		"NotThere":      {"it waits for its VirtualMachine", spi.ErrNotFound, spi.Reached{}, nil, map[string]float64{waits + "accepted": 1}},
		"WithoutDisks":  {"it waits for them", spi.ErrUninitialized, created, nil, map[string]float64{waits + "image": 1}},
		"WithDisks":     {"it waits for a host", spi.ErrUninitialized, disks, nil, map[string]float64{waits + "scheduled": 1}},
		"Unreachable":   {"the state is not known", spi.ErrUnavailable, spi.Reached{}, nil, map[string]float64{}},
		"Running":       {"all phases are known", nil, running, nil, all},
		"NotRunningYet": {"the last one is not known", nil, scheduled, nil, map[string]float64{measured + "accepted": 1, measured + "image": 1, measured + "scheduled": 1}},
		"TooLate":       {"what it did not come to in its time is not known", nil, created, nil, map[string]float64{measured + "accepted": 1}},
		"CrashLooping": {"it was refused before", nil, running, func(m *v1alpha1.Machine) {
			m.Status.CurrentStatus.Phase = v1alpha1.MachineCrashLoopBackOff
		}, all},
		"Pending": {"the process before has counted it", nil, running, func(m *v1alpha1.Machine) {
			m.Status.CurrentStatus.Phase = v1alpha1.MachinePending
		}, map[string]float64{}},
		"Deleting": {"it is not being created", nil, running, func(m *v1alpha1.Machine) {
			m.DeletionTimestamp = &metav1.Time{Time: made}
		}, map[string]float64{}},
		"MadeUp": {"there is no Machine", nil, running, func(m *v1alpha1.Machine) { m.UID = "" }, map[string]float64{}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			seen := &look{reached: tc.seen}
			p := newPlugin(seen)
			r := validRequest()
			r.machine.CreationTimestamp = metav1.NewTime(made)

			if tc.change != nil {
				tc.change(r.machine)
			}

			for range 2 { // machine-controller-manager may ask again.
				seen.err = tc.err
				_ = calls()["GetMachineStatus"](t.Context(), p, r) // Other tests check the result.
			}

			require.Equal(t, tc.want, phasesOf(t, p), tc.reason)

			seen.err = nil
			require.NoError(t, calls()["DeleteMachine"](t.Context(), p, r))

			for key := range phasesOf(t, p) {
				require.NotContains(t, key, waits, "it waits for nothing any more")
			}
		})
	}
}

// phasesOf returns a plugin's metrics of phases, without zeros and times.
func phasesOf(t *testing.T, p *kubevirt.MachinePlugin) map[string]float64 {
	t.Helper()

	values := gather(t, p)
	for key, value := range values {
		if value == 0 || strings.HasPrefix(key, "mcm_kubevirt_machine_longest") || !strings.HasPrefix(key, "mcm_kubevirt_") {
			delete(values, key)
		}
	}

	return values
}
