// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// RunControllers runs machine-controller-manager and the sidecar for the shoot until the test ends.
func (s *Shoot) RunControllers(t *testing.T, sidecarArgs ...string) {
	t.Helper()

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	s.Controller, err = lab.StartSidecar(t.Context(), s.Shoot, Sidecar(), sidecarArgs...)
	require.NoError(t, err)

	t.Cleanup(func() {
		require.NoError(t, s.Controller.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})
}

// KillSidecar kills the sidecar and starts another.
func (s *Shoot) KillSidecar(t *testing.T, sidecarArgs ...string) {
	t.Helper()

	require.NoError(t, s.Controller.Signal(syscall.SIGKILL))
	<-s.Controller.Exited()

	var err error

	s.Controller, err = lab.StartSidecar(t.Context(), s.Shoot, Sidecar(), sidecarArgs...)
	require.NoError(t, err)
}

// StartSidecar starts a sidecar that runs until the test ends, unless it is stopped before.
func (s *Shoot) StartSidecar(t *testing.T, args ...string) *process.Process {
	t.Helper()

	started, err := lab.StartSidecar(t.Context(), s.Shoot, Sidecar(), args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, started.Stop(context.WithoutCancel(t.Context()))) })

	return started
}

// RequireStopsInOrder tells a process to stop, and requires that it exits by itself, without an
// error. The benchmark measures how long that takes.
func RequireStopsInOrder(t *testing.T, p *process.Process) {
	t.Helper()

	require.NoError(t, p.Signal(syscall.SIGTERM))
	Eventually(t, p.Name()+" has ended", func(context.Context) (bool, error) { return p.Err() != nil, nil })
	require.ErrorContains(t, p.Err(), "exit status 0", "the process exits by itself, without an error")
}

// StartDriver runs the real mcm-kubevirt serve.
func (s *Shoot) StartDriver(t *testing.T, endpoint string, args ...string) *process.Process {
	t.Helper()

	p, err := lab.StartDriver(t.Context(), s.Shoot, RemoteDriver(), endpoint, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) })

	return p
}

// Controllers are machine-controller-manager and the sidecar of one shoot, which share a pod.
type Controllers struct {
	Manager, Sidecar *process.Process
}

// PatientElection returns flags with which machine-controller-manager and the sidecar keep their Leases while a starved API server does not
// respond. The lab does not restart a program that exits.
func PatientElection() []string {
	return []string{"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"}
}

// StartControllers runs machine-controller-manager and the sidecar for the shoot until the test
// ends, unless they are stopped before.
func (s *Shoot) StartControllers(t *testing.T, sidecarArgs ...string) *Controllers {
	t.Helper()

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	controller, err := lab.StartSidecar(t.Context(), s.Shoot, Sidecar(), sidecarArgs...)
	require.NoError(t, err)

	started := &Controllers{Manager: manager, Sidecar: controller}
	t.Cleanup(func() {
		require.NoError(t, controller.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	return started
}

// Terminate stops the pod as a kubelet does: SIGTERM, and SIGKILL after the
// 5 s granted by Gardener.
func (c *Controllers) Terminate(t *testing.T) {
	t.Helper()

	const grace = 5 * time.Second

	limited, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()

	require.NoError(t, c.Sidecar.Signal(syscall.SIGTERM))

	select {
	case <-c.Sidecar.Exited():
	case <-limited.Done():
		require.NoError(t, c.Sidecar.Signal(syscall.SIGKILL))
	}

	require.NoError(t, c.Manager.Stop(t.Context()))
}

// KillSidecar kills the sidecar with SIGKILL.
func (c *Controllers) KillSidecar(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Sidecar.Signal(syscall.SIGKILL))
	<-c.Sidecar.Exited()
}
