package integration

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestSidecarKilledMidway runs rows of the crash matrix under the real machine-controller-manager.
// The sidecar is killed after the provider cluster has carried out a call and before the sidecar
// gets the answer, during creations and deletions. The next sidecar continues.
func TestSidecarKilledMidway(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	l := s.proxy(t)

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	t.Cleanup(func() { require.NoError(t, manager.Stop(context.WithoutCancel(t.Context()))) })

	failures := s.failures(t)

	s.applyExample(t)
	s.killSidecarAfter(t, l, "create secrets", 1)
	s.killSidecarAfter(t, l, "create virtualmachines", 1)

	running := s.startSidecar(t)
	s.requireOnePerMachine(t, len(s.awaitRunning(t, 3)))
	require.NoError(t, running.Stop(t.Context()))

	require.NoError(t, s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(
		t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.killSidecarAfter(t, l, "delete virtualmachines", 1)
	s.killSidecarAfter(t, l, "deletecollection secrets", 1)

	s.startSidecar(t)
	s.awaitEnd(t)
	require.Empty(t, failures(), "the end of a process is nobody's failure")
}

// TestSoakFiftyCreationsKilled kills the sidecar during fifty creations. The next one creates the
// missing machines, and no duplicates.
func TestSoakFiftyCreationsKilled(t *testing.T) {
	t.Parallel()

	const many = 50

	s := newShoot(t)
	there, restarted := s.killAmong(t, many)
	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)

	eventually(t, "all machines are created", func(ctx context.Context) (bool, error) {
		list, err := vms.List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == many, err
	})
	t.Logf("%d of %d machines were there; all were %.1f s after the restart", there, many, time.Since(restarted).Seconds())

	machines, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for _, m := range machines.Items {
		s.vm(t, m.Name)
	}

	s.requireOnePerMachine(t, len(machines.Items))
	s.awaitEnd(t)
}

// killAmong makes machine-controller-manager create many machines, kills the sidecar during their
// creation, and starts the next one. It returns the number of existing machines and the time of the
// restart. The machines cannot be scheduled, which keeps them cheap.
func (s *shoot) killAmong(t *testing.T, many int32) (there int, restarted time.Time) {
	t.Helper()

	l := s.proxy(t)

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Stop(context.WithoutCancel(t.Context()))) })

	s.applyCredentials(t)
	s.addPool(t, s.Name, many, s.spec("zone-x", ephemeralRoot))
	s.killSidecarAfter(t, l, "create virtualmachines", int64(many/10)) // Most of the other creations are in progress by then.

	before, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Less(t, len(before.Items), int(many), "it is killed among them")

	restarted = time.Now()

	s.startSidecar(t)

	return len(before.Items), restarted
}

// startSidecar starts a sidecar that runs until the test ends, unless it is stopped before.
func (s *shoot) startSidecar(t *testing.T, args ...string) *process.Process {
	t.Helper()

	started, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop(context.WithoutCancel(t.Context()))) })

	return started
}

// killSidecarAfter starts a sidecar, and kills it when the provider cluster has carried out the
// given number of such calls, before the answer to the last one arrives.
func (s *shoot) killSidecarAfter(t *testing.T, l *line, call string, calls int64) {
	t.Helper()
	l.killAfter(t, call, calls, func() *process.Process { return s.startSidecar(t) })
}

// killAfter starts a process, and kills it when the provider cluster has carried out the given
// number of such calls, before the answer to the last one arrives.
func (l *line) killAfter(t *testing.T, call string, calls int64, start func() *process.Process) {
	t.Helper()

	var carriedOut atomic.Int64

	victim := make(chan *process.Process, 1)
	kill := func(made string) {
		if made != call || carriedOut.Add(1) < calls {
			return
		}

		select {
		case p := <-victim:
			_ = p.Signal(syscall.SIGKILL) // A later answer may already have killed it.
			<-p.Exited()
			victim <- p
		case <-t.Context().Done():
		}
	}

	l.carriedOut.Store(&kill)

	p := start()
	victim <- p

	eventually(t, p.Name()+" is killed after "+call, func(context.Context) (bool, error) { return p.Err() != nil, nil })
	l.carriedOut.Store(nil)
}

// requireOnePerMachine requires exactly one VirtualMachine and one Secret per Machine.
func (s *shoot) requireOnePerMachine(t *testing.T, machines int) {
	t.Helper()

	vms, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, vms.Items, machines)

	secrets, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, secrets.Items, machines)
}
