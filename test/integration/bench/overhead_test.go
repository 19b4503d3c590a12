// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// benchOverhead compares machines created by machine-controller-manager and the driver with
// identical VirtualMachines and Secrets created by hand. Each machine is timed from the request for
// its first object to its running instance. Both kinds alternate, since the host's speed varies:
// first one machine at a time, then fifty at once, which keep all cores busy.
func benchOverhead(t *testing.T, b *bench) {
	byHand, byDriver := overheadOfOne(t)
	b.overhead("one at a time", byHand, byDriver, time.Second)

	byHand = nil
	byDriver = nil

	for _, round := range []struct {
		took *[]time.Duration
		run  func(*testing.T) []time.Duration
	}{
		{&byHand, overheadByHand}, {&byDriver, overheadByDriver}, {&byDriver, overheadByDriver}, {&byHand, overheadByHand},
	} {
		*round.took = append(*round.took, round.run(t)...)
	}

	b.overhead(fmt.Sprintf("2 x %d at once", fifty), byHand, byDriver, 0)
}

// overhead adds the results of a comparison. A budget of zero means none.
func (b *bench) overhead(how string, byHand, byDriver []time.Duration, budget time.Duration) {
	b.note("(a) Secret and VirtualMachine created by hand to instance running, "+how, distribution(byHand))
	b.note("(b) Machine of a known class created to instance running, "+how, distribution(byDriver))

	middle := median(byDriver) - median(byHand)
	tail := percentile(byDriver, 95) - percentile(byHand, 95)
	what := "overhead: (b) minus (a), " + how
	measured := fmt.Sprintf("median %s, p95 %s", centiseconds(middle), centiseconds(tail))

	if budget == 0 {
		b.note(what, measured)
	} else {
		b.judge(what, measured, middle.Seconds(), budget.Seconds(), "s (median)")
	}
}

func distribution(took []time.Duration) string {
	return fmt.Sprintf("median %s, p95 %s", centiseconds(median(took)), centiseconds(percentile(took, 95)))
}

func centiseconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// handmade is a shoot whose VirtualMachines and Secrets are created by hand,
// identical to the driver's.
type handmade struct {
	*harness.Shoot

	vms     []*kubevirtv1.VirtualMachine
	secrets []*corev1.Secret
}

// newHandmade lets the driver create one machine, and copies its objects under other names.
func newHandmade(t *testing.T, many int) *handmade {
	t.Helper()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	m.Class.ProviderSpec.Raw = smallSpec(t, s, "zone-a", harness.EphemeralRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	vm := s.VM(t, m.Name())
	secret, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.Name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, m.Remove(t.Context(), d))

	h := &handmade{Shoot: s}
	for i := range many {
		h.vms = append(h.vms, renamed(t, vm, m.Name(), nthMachine(s, i)))
		h.secrets = append(h.secrets, renamed(t, secret, m.Name(), nthMachine(s, i)))
	}

	return h
}

// create creates the nth machine.
func (h *handmade) create(ctx context.Context, n int) error {
	if _, err := h.Kube.CoreV1().Secrets(h.ProviderNamespace).Create(ctx, h.secrets[n], metav1.CreateOptions{}); err != nil {
		return err
	}

	_, err := h.KubeVirt.KubevirtV1().VirtualMachines(h.ProviderNamespace).Create(ctx, h.vms[n], metav1.CreateOptions{})

	return err
}

// end deletes all machines.
func (h *handmade) end(t *testing.T) {
	t.Helper()

	require.NoError(t, h.KubeVirt.KubevirtV1().VirtualMachines(h.ProviderNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, h.Kube.CoreV1().Secrets(h.ProviderNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	h.RequireNothingLeft(t)
}

// overheadOfOne creates one machine at a time, alternating between hand and driver.
func overheadOfOne(t *testing.T) (byHand, byDriver []time.Duration) {
	t.Helper()

	const rounds = 20

	h := newHandmade(t, rounds)
	s := newWarm(t)
	handRuns := seenInstances(t, h.Shoot, running)
	driverRuns := seenInstances(t, s, running)

	for i := range rounds {
		began := time.Now()

		require.NoError(t, h.create(t.Context(), i))

		byHand = append(byHand, handRuns.since(t, map[string]time.Time{nthMachine(h.Shoot, i): began})...)
		began = time.Now()

		_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Create(t.Context(), wantedMachines(s, nthMachine(s, i)), metav1.CreateOptions{})
		require.NoError(t, err)

		byDriver = append(byDriver, driverRuns.since(t, map[string]time.Time{nthMachine(s, i): began})...)
	}

	h.end(t)
	endMachines(t, s)

	return byHand, byDriver
}

func overheadByHand(t *testing.T) []time.Duration {
	t.Helper()

	h := newHandmade(t, fifty)
	began := &seen{at: map[string]time.Time{}}
	runs := seenInstances(t, h.Shoot, running)

	harness.ForEach(t, fifty, fifty, func(ctx context.Context, i int) error {
		began.note(nthMachine(h.Shoot, i))

		return h.create(ctx, i)
	})

	took := runs.since(t, began.at)
	h.end(t)

	return took
}

// renamed returns a copy of an object as a client would create it, with every occurrence
// of the old name replaced.
func renamed[T any](t *testing.T, object *T, from, to string) *T {
	t.Helper()

	raw, err := yaml.Marshal(object)
	require.NoError(t, err)

	var fields map[string]any

	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(string(raw), from, to)), &fields))
	delete(fields, "status")

	metadata, ok := fields["metadata"].(map[string]any)
	require.True(t, ok)

	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"} {
		delete(metadata, set)
	}

	raw, err = yaml.Marshal(fields)
	require.NoError(t, err)

	other := new(T)
	require.NoError(t, yaml.Unmarshal(raw, other))

	return other
}

// overheadByDriver lets machine-controller-manager create the machines.
func overheadByDriver(t *testing.T) []time.Duration {
	t.Helper()

	s := newWarm(t)
	runs := seenInstances(t, s, running)
	took := runs.since(t, createMachines(t, s, 0, fifty))
	endMachines(t, s)

	return took
}
