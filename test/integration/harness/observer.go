// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// Observer watches a shoot's machines and pods in all clusters, and records their changes.
type Observer struct {
	*Timeline
	*observer.Observer

	pools map[string]int32
}

// Watch starts when the shoot is in its wanted state. pools has the wanted number of Machines of each pool.
func (s *Shoot) Watch(t *testing.T, events *Timeline, pools map[string]int32) *Observer {
	t.Helper()

	o := observer.New(observer.Options{
		Pools:  pools,
		Tell:   func(who, what string) { events.Add(who, "%s", what) },
		PodsOn: func(node string) ([]corev1.Pod, error) { return s.podsOn(t, node) },
	})
	kubevirtAPI := s.KubeVirt.KubevirtV1()
	observe(t, s.MCM.MachineV1alpha1().Machines(s.Namespace), &v1alpha1.Machine{}, o.Machine)
	observe(t, s.Target.CoreV1().Pods(s.Namespace), &corev1.Pod{}, o.Pod)
	observe(t, s.Target.CoreV1().Events(s.Namespace), &corev1.Event{}, o.Event)
	observe(t, kubevirtAPI.VirtualMachineInstances(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstance{}, o.Instance)
	observe(t, kubevirtAPI.VirtualMachineInstanceMigrations(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstanceMigration{}, o.Migration)
	o.Begin()

	return &Observer{Timeline: events, Observer: o, pools: pools}
}

func (s *Shoot) podsOn(t *testing.T, node string) ([]corev1.Pod, error) {
	t.Helper()

	pods, err := s.Target.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err == nil {
		return pods.Items, nil
	}

	if t.Context().Err() == nil {
		t.Error(err)
	}

	return nil, err
}

// RequireEvicted requires that at least this many pods ended, each by an eviction that the target's
// API server allowed before the pod's guest was told to shut down.
func (o *Observer) RequireEvicted(t *testing.T, least int) {
	t.Helper()

	ends := o.Ends()
	require.GreaterOrEqual(t, len(ends), least)

	for _, end := range ends {
		require.True(t, end.Evicted && !end.Killed, "%+v", end)
	}
}

// Killed returns the pods that were stopped with their guests.
func (o *Observer) Killed() []string {
	var names []string

	for _, end := range o.Ends() {
		if end.Killed {
			names = append(names, end.Pod)
		}
	}

	return names
}

// RequireAtMostAway requires that no pool ever lacked more Machines than this.
func (o *Observer) RequireAtMostAway(t *testing.T, most int) {
	t.Helper()

	for pool := range o.pools {
		require.LessOrEqual(t, o.Away(pool), most, "%s: number of Machines that were unavailable at a time", pool)
	}
}

// RequireBudgetsKept requires that no application ever lacked more than the one pod that its
// PodDisruptionBudget allows.
func (o *Observer) RequireBudgetsKept(t *testing.T, apps ...Application) {
	t.Helper()

	for _, app := range apps {
		_, fewest := o.Ready(app.Name)
		require.GreaterOrEqual(t, fewest, int(app.Replicas)-1, "%s: minimum number of ready pods", app.Name)
	}
}

// RequireNoWarnings requires that the driver recorded no warnings.
func (o *Observer) RequireNoWarnings(t *testing.T) {
	t.Helper()

	require.Empty(t, o.Warnings())
}
