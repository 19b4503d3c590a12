// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestBlipsNeverShow repeatedly makes the provider cluster unavailable for ten seconds, under
// the real machine-controller-manager. No Machine may ever be seen failed: Gardener would
// abort its reconciliation.
func TestBlipsNeverShow(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"reset before", "503", "webhook"} {
		f := harness.FaultNamed(t, name)

		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			l := s.ProxyProvider(t)
			s.RunControllers(t)
			failures := s.Failures(t)

			l.Down.Store(&f)
			s.ApplyExample(t)
			l.BringBack(t)
			s.AwaitRunning(t, 3)

			require.NoError(t, s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(
				t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))

			l.Hits.Store(0)
			l.Down.Store(&f)
			l.BringBack(t)
			s.AwaitEnd(t)
			require.Empty(t, failures())
		})
	}
}

// TestOutageAndKill makes the provider cluster unavailable for longer than the driver hides
// faults, and kills the sidecar meanwhile. The Machines report the failure, and run without
// intervention afterwards.
func TestOutageAndKill(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)

	manager, err := harness.Lab().StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	first, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar())
	require.NoError(t, err)

	failures := s.Failures(t)
	reset := harness.FaultNamed(t, "reset before")

	l.Down.Store(&reset)
	s.ApplyExample(t)
	harness.Eventually(t, "a Machine reports that the provider cluster is unavailable", func(context.Context) (bool, error) {
		return len(failures()) > 0, nil
	})
	require.Contains(t, failures()[0], "ProviderUnavailable")

	require.NoError(t, first.Signal(syscall.SIGKILL))
	<-first.Exited()
	l.Down.Store(nil)

	second, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, second.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	s.AwaitRunning(t, 3)
	s.AwaitEnd(t)
}

// TestEmptyListOfMachines starts the sidecar while the control cluster returns no Machines, as an
// API server may do after an outage. machine-controller-manager then treats every machine as an
// orphan; none may be deleted.
func TestEmptyListOfMachines(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)

	const many = 5
	for i := range many {
		s.CreateHaltedVM(t, fmt.Sprintf("worker-%d", i), map[string]string{
			"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node",
		})
	}

	s.ApplyExampleClasses(t)
	s.RunControllers(t)
	harness.Eventually(t, "each machine was treated as an orphan", func(context.Context) (bool, error) {
		return l.Asked("list virtualmachines") > 0 && l.Asked("get virtualmachines") >= many, nil
	})

	list, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, many)
	require.Zero(t, l.Asked("delete virtualmachines"))
}
