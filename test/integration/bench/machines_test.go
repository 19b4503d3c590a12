// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// longest bounds all waits. It is longer than elsewhere, because slow results
// are worth measuring too.
const longest = 10 * time.Minute

// smallSpec is spec with little memory, so that a zone has room for many machines.
func smallSpec(t *testing.T, s *harness.Shoot, zone, rootVolume string) []byte {
	t.Helper()

	return harness.MergeFields(t, s.Spec(zone, rootVolume), `{"memory":{"guest":"64Mi"}}`)
}

// newWarm returns a shoot that already has a Machine. machine-controller-manager adds a finalizer
// to a class for its first Machine, and requeues that Machine after five seconds.
func newWarm(t *testing.T) *harness.Shoot {
	t.Helper()

	s := harness.NewShoot(t)
	s.ApplyCredentials(t)
	addClass(t, s, smallSpec(t, s, "zone-a", harness.EphemeralRoot))
	s.RunControllers(t)

	_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Create(t.Context(), wantedMachines(s, s.Name+"-first"), metav1.CreateOptions{})
	require.NoError(t, err)
	s.AwaitRunning(t, 1)

	return s
}

// addClass creates a MachineClass with the name of the shoot, for Machines
// without a MachineDeployment.
func addClass(t *testing.T, s *harness.Shoot, spec []byte) {
	t.Helper()
	addClassNamed(t, s, s.Name, spec)
}

// addClassNamed creates a MachineClass.
func addClassNamed(t *testing.T, s *harness.Shoot, name string, spec []byte) {
	t.Helper()

	_, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), &v1alpha1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provider:             "kubevirt",
		ProviderSpec:         runtime.RawExtension{Raw: spec},
		CredentialsSecretRef: &corev1.SecretReference{Name: "cloudprovider", Namespace: s.Namespace},
		SecretRef:            &corev1.SecretReference{Name: "example-worker-userdata", Namespace: s.Namespace},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// wantedMachines returns a new Machine of the shoot's class.
func wantedMachines(s *harness.Shoot, name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": s.Name}},
		Spec:       v1alpha1.MachineSpec{Class: v1alpha1.ClassSpec{Kind: "MachineClass", Name: s.Name}},
	}
}

// createMachines creates many Machines at once, without a MachineSet, which would create them in
// batches. It returns when each was requested.
func createMachines(t *testing.T, s *harness.Shoot, first, many int) map[string]time.Time {
	t.Helper()

	began := &seen{at: map[string]time.Time{}}

	harness.ForEach(t, many, many, func(ctx context.Context, i int) error {
		name := nthMachine(s, first+i)
		began.note(name)

		_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Create(ctx, wantedMachines(s, name), metav1.CreateOptions{})

		return err
	})

	return began.at
}

// live creates machines at once, deletes them when all of them have been seen, and returns how long that took for each.
func live(t *testing.T, s *harness.Shoot, what *seen, first, many int) []time.Duration {
	t.Helper()

	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)
	gone := firstGone(t, machines.Watch)
	began := createMachines(t, s, first, many)
	took := what.since(t, began)

	harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error {
		return machines.Delete(ctx, nthMachine(s, first+i), metav1.DeleteOptions{})
	})
	gone.since(t, began)

	return took
}

// endMachines deletes all MachineDeployments and Machines, and waits until only
// the named objects are left.
func endMachines(t *testing.T, s *harness.Shoot, but ...string) {
	t.Helper()

	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)

	require.NoError(t, s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, machines.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	harness.Within(t, longest, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := machines.List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 0, err
	})
	s.RequireNothingLeft(t, but...)
}
