// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	waitTimeout  = 30 * time.Second
	pollInterval = time.Millisecond
)

// provider is a provider cluster controlled by a test.
type provider struct {
	mu      sync.Mutex
	watches []*watch
	list    []spi.Evacuation
	err     error  // of every request
	rejects string // a machine whose requests are rejected
	sent    []string
}

// watch implements spi.Evacuations.
type watch struct {
	*provider

	ctx        context.Context //nolint:containedctx // Tests check whether it has ended.
	kubeconfig string
	changed    func()
}

// ServerAndNamespace implements spi.Evacuator. It returns the part of the kubeconfig before the
// slash.
func (p *provider) ServerAndNamespace(kubeconfig []byte) (string, error) {
	return string(kubeconfig[:1]), nil
}

// IsSameUser implements spi.Evacuator. The token is behind the colon.
func (*provider) IsSameUser(a, b []byte) bool {
	before, _, _ := strings.Cut(string(a), ":")
	after, _, _ := strings.Cut(string(b), ":")

	return before == after
}

// WatchEvacuations implements spi.Evacuator.
func (p *provider) WatchEvacuations(ctx context.Context, in *spi.WatchEvacuationsInput, changed func()) (spi.Evacuations, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	w := &watch{provider: p, ctx: ctx, kubeconfig: string(in.Kubeconfig), changed: changed}
	p.watches = append(p.watches, w)

	return w, nil
}

// activeWatches returns the kubeconfigs of the active watches.
func (p *provider) activeWatches() []string {
	p.mu.Lock()
	defer p.mu.Unlock()

	var list []string

	for _, w := range p.watches {
		if w.ctx.Err() == nil {
			list = append(list, w.kubeconfig)
		}
	}

	return list
}

// set replaces the evacuations, and sets the error of every request.
func (p *provider) set(err error, list ...spi.Evacuation) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.list = list
	p.err = err

	for _, w := range p.watches {
		go w.changed()
	}
}

// errGone rejects a step for an evacuation that has ended between the list and the step.
var errGone = errors.New("the instance is gone")

func (p *provider) send(request string, e *spi.Evacuation) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if !slices.ContainsFunc(p.list, func(listed spi.Evacuation) bool { return listed.UID == e.UID }) {
		return errGone
	}

	p.sent = append(p.sent, request+" "+e.Machine)

	if e.Machine == p.rejects {
		return spi.ErrForbidden
	}

	return p.err
}

func (p *provider) sentRequests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()

	return append([]string(nil), p.sent...)
}

// List implements spi.Evacuations.
func (p *provider) List() ([]spi.Evacuation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.list, true
}

// Confirm implements spi.Evacuations: an evacuation from node "stale" has ended, and one from node
// "hidden" may not be read.
func (p *provider) Confirm(_ context.Context, e *spi.Evacuation) (bool, error) {
	if e.Node == "hidden" {
		return false, spi.ErrForbidden
	}

	return e.Node != "stale", nil
}

// Migrate implements spi.Evacuations.
func (p *provider) Migrate(_ context.Context, e *spi.Evacuation) error {
	return p.send("migrate", e)
}

// CancelMigration implements spi.Evacuations.
func (p *provider) CancelMigration(_ context.Context, e *spi.Evacuation) error {
	return p.send("cancel", e)
}

// PowerOff implements spi.Evacuations.
func (p *provider) PowerOff(_ context.Context, e *spi.Evacuation) error {
	return p.send("power off", e)
}

// MaintainMigrations implements spi.Evacuations.
func (p *provider) MaintainMigrations(context.Context) error { return nil }

// rig is a controller between two clusters that are controlled by a test.
type rig struct {
	*provider
	*evacuation.Controller
	record.EventRecorder

	clock    *testingclock.FakePassiveClock
	machines *fake.Clientset

	mu     sync.Mutex
	events []string
}

// Event implements record.EventRecorder.
func (r *rig) Event(object runtime.Object, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if m, ok := object.(*v1alpha1.Machine); ok {
		r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", m.Name, eventType, reason, message))
	}
}

func (r *rig) await(t *testing.T, event string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(r.recordedEvents(), event) }, waitTimeout, pollInterval, event)
}

func (r *rig) recordedEvents() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.events)
}

func newRig(t *testing.T, machines ...string) *rig {
	t.Helper()

	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "shoot", UID: "pool"},
		Spec:       v1alpha1.MachineSetSpec{Replicas: int32(len(machines))},
	}
	objects := []runtime.Object{set}

	for _, name := range machines {
		objects = append(objects, &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Name:            name,
				Namespace:       "shoot",
				UID:             types.UID(name),
				OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "pool", UID: "pool", Controller: ptr.To(true)}},
			},
			Status: v1alpha1.MachineStatus{CurrentStatus: v1alpha1.CurrentStatus{Phase: v1alpha1.MachineRunning}},
		})
	}

	r := &rig{provider: &provider{}, machines: fake.NewSimpleClientset(objects...), clock: testingclock.NewFakePassiveClock(time.Now())}
	r.Controller = evacuation.New(evacuation.Options{
		Evacuator:      r.provider,
		Machines:       r.machines.MachineV1alpha1(),
		Namespace:      "shoot",
		Events:         r,
		Clock:          r.clock,
		Limits:         evacuation.Limits{MaxPerDeployment: 1, Deadline: time.Hour, MigrationTimeout: time.Hour},
		Period:         pollInterval,
		ClassRetention: 100 * time.Hour,
	})

	var run sync.WaitGroup

	run.Go(func() { r.Run(t.Context()) })
	t.Cleanup(run.Wait)

	return r
}

// see notifies the controller of a request for a class.
func (r *rig) see(class, kubeconfig string) {
	r.Observe(&v1alpha1.MachineClass{
		ObjectMeta:   metav1.ObjectMeta{Name: class},
		ProviderSpec: runtime.RawExtension{Raw: []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`)},
	}, &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}})
}

func (r *rig) requireWatches(t *testing.T, kubeconfigs ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return fmt.Sprint(r.activeWatches()) == fmt.Sprint(kubeconfigs)
	}, waitTimeout, pollInterval, "%v should be watched with", kubeconfigs)
}

// requireLongestWait reads the gauge as Prometheus does, in seconds.
func requireLongestWait(t *testing.T, r *rig, want float64) {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(r.Controller))

	require.Eventually(t, func() bool {
		families, err := registry.Gather()
		if err != nil {
			return false
		}

		for _, family := range families {
			if family.GetName() == "mcm_kubevirt_evacuation_longest_wait_seconds" {
				return family.GetMetric()[0].GetGauge().GetValue() == want
			}
		}

		return false
	}, waitTimeout, pollInterval, "%v", want)
}

// requireOutcomes reads the counter as Prometheus does.
func requireOutcomes(t *testing.T, r *rig, want map[string]float64) {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(r.Controller))

	require.Eventually(t, func() bool {
		families, err := registry.Gather()
		if err != nil {
			return false
		}

		have := map[string]float64{}

		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "mcm_kubevirt_evacuations_total" {
					have[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}

		return fmt.Sprint(have) == fmt.Sprint(want)
	}, waitTimeout, pollInterval, "%v", want)
}
