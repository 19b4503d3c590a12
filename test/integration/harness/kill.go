// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

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

// KillAmong makes machine-controller-manager create many machines, kills the sidecar during their
// creation, and starts the next one. It returns the number of existing machines and the time of the
// restart. The machines cannot be scheduled, which keeps them cheap.
func (s *Shoot) KillAmong(t *testing.T, many int32) (there int, restarted time.Time) {
	t.Helper()

	l := s.ProxyProvider(t)

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, manager.Stop(context.WithoutCancel(t.Context()))) })

	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, many, s.Spec("zone-x", EphemeralRoot))
	s.KillSidecarAfter(t, l, "create virtualmachines", int64(many/10)) // Most of the other creations are in progress by then.

	before, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Less(t, len(before.Items), int(many), "the sidecar must be killed before the last creation")

	restarted = time.Now()

	s.StartSidecar(t)

	return len(before.Items), restarted
}

// KillSidecarAfter starts a sidecar, and kills it when the provider cluster has carried out the
// given number of such calls, before the answer to the last one arrives.
func (s *Shoot) KillSidecarAfter(t *testing.T, l *Line, call string, calls int64) {
	t.Helper()
	l.KillAfter(t, call, calls, func() *process.Process { return s.StartSidecar(t) })
}

// KillAfter starts a process, and kills it when the provider cluster has carried out the given
// number of such calls, before the answer to the last one arrives.
func (l *Line) KillAfter(t *testing.T, call string, calls int64, start func() *process.Process) {
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

	l.CarriedOut.Store(&kill)

	p := start()
	victim <- p

	Eventually(t, p.Name()+" is killed after "+call, func(context.Context) (bool, error) { return p.Err() != nil, nil })
	l.CarriedOut.Store(nil)
}

// RequireOnePerMachine requires exactly one VirtualMachine and one Secret per Machine.
func (s *Shoot) RequireOnePerMachine(t *testing.T, machines int) {
	t.Helper()

	vms, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, vms.Items, machines)

	secrets, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, secrets.Items, machines)
}
