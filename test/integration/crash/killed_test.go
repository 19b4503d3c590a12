// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestSidecarKilledMidway runs rows of the crash matrix under the real machine-controller-manager.
// The sidecar is killed after the provider cluster has carried out a call and before the sidecar
// gets the answer, during creations and deletions. The next sidecar continues.
func TestSidecarKilledMidway(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)

	manager, err := harness.Lab().StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	t.Cleanup(func() { require.NoError(t, manager.Stop(context.WithoutCancel(t.Context()))) })

	failures := s.Failures(t)

	s.ApplyExample(t)
	s.KillSidecarAfter(t, l, "create secrets", 1)
	s.KillSidecarAfter(t, l, "create virtualmachines", 1)

	running := s.StartSidecar(t)
	s.RequireOnePerMachine(t, len(s.AwaitRunning(t, 3)))
	require.NoError(t, running.Stop(t.Context()))

	require.NoError(t, s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(
		t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.KillSidecarAfter(t, l, "delete virtualmachines", 1)
	s.KillSidecarAfter(t, l, "deletecollection secrets", 1)

	s.StartSidecar(t)
	s.AwaitEnd(t)
	require.Empty(t, failures(), "no Machine may fail because a process ends")
}

// TestSoakFiftyCreationsKilled kills the sidecar during fifty creations. The next one creates the
// missing machines, and no duplicates.
func TestSoakFiftyCreationsKilled(t *testing.T) {
	t.Parallel()

	const many = 50

	s := harness.NewShoot(t)
	there, restarted := s.KillAmong(t, many)
	vms := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)

	harness.Eventually(t, "all machines are created", func(ctx context.Context) (bool, error) {
		list, err := vms.List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == many, err
	})
	t.Logf("%d of %d machines were there; all were %.1f s after the restart", there, many, time.Since(restarted).Seconds())

	machines, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for _, m := range machines.Items {
		s.VM(t, m.Name)
	}

	s.RequireOnePerMachine(t, len(machines.Items))
	s.AwaitEnd(t)
}
