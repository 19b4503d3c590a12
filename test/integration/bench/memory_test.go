// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// benchMemory measures the sidecar of a shoot without machines, and of shoots
// with many running machines.
func benchMemory(t *testing.T, b *bench) {
	rss, peak := idleMemory(t)
	b.note("memory of the idle sidecar", distinct(rss, peak))

	rss, peak = runningMemory(t, hundred)
	b.judge(fmt.Sprintf("memory of the sidecar with %d running Machines and their Nodes (simulated, without VirtualMachines)", hundred), distinct(rss, peak), rss, 80, "MiB RSS")

	rss, peak = runningMemory(t, thousand)
	b.note(fmt.Sprintf("memory of the sidecar with %d running Machines and their Nodes (simulated, without VirtualMachines)", thousand), distinct(rss, peak))
}

// idleMemory returns the memory of an idle sidecar that knows one class.
func idleMemory(t *testing.T) (rss, peak float64) {
	t.Helper()

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)
	s.ApplyCredentials(t)
	addClass(t, s, s.Spec("zone-a", harness.EphemeralRoot))

	process := s.StartSidecar(t)

	harness.Eventually(t, "the sidecar has its caches and looks for orphans", func(context.Context) (bool, error) {
		return l.Asked("list virtualmachines") > 0, nil
	})

	return settledMemory(t, process)
}

// runningMemory returns the memory of a sidecar with many running Machines and their Nodes, which
// its caches hold. The driver keeps no state for running machines, so there are no VirtualMachines.
func runningMemory(t *testing.T, many int) (rss, peak float64) {
	t.Helper()

	s := harness.NewShoot(t)
	s.ApplyCredentials(t)
	addClass(t, s, s.Spec("zone-a", harness.EphemeralRoot))

	defer forgetPretended(t, s, many)

	harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error { return pretendRunning(ctx, s, nthMachine(s, i)) })
	harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error { return pretendJoined(ctx, s, nthMachine(s, i)) })

	process := s.StartSidecar(t)

	harness.Within(t, longest, "the sidecar has worked on all Machines", func(ctx context.Context) (bool, error) {
		harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error { return renewLease(ctx, s, nthMachine(s, i)) }) //nolint:contextcheck // It ends with the test.

		return allRun(ctx, s, many)
	})

	rss, peak = settledMemory(t, process)
	still, err := allRun(t.Context(), s, many)
	require.NoError(t, err)
	require.True(t, still, "all Machines run")
	require.NoError(t, process.Stop(t.Context()))

	return rss, peak
}

// allRun reports whether the expected number of Machines exist, the sidecar knows them, and all of
// them run.
func allRun(ctx context.Context, s *harness.Shoot, many int) (bool, error) {
	list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}

	return len(list.Items) == many && !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool {
		return len(m.Finalizers) == 0 || m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning
	}), nil
}

// nthMachine returns the name of the shoot's ith machine.
func nthMachine(s *harness.Shoot, i int) string { return fmt.Sprintf("%s-%d", s.Name, i) }

// pretendRunning creates a Machine with the status of a running one.
func pretendRunning(ctx context.Context, s *harness.Shoot, name string) error {
	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)
	m := wantedMachines(s, name)
	m.Labels[v1alpha1.NodeLabelKey] = name
	m.Spec.ProviderID = "kubevirt://" + name

	m, err := machines.Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	m.Status.CurrentStatus = v1alpha1.CurrentStatus{Phase: v1alpha1.MachineRunning, LastUpdateTime: metav1.Now()}
	_, err = machines.UpdateStatus(ctx, m, metav1.UpdateOptions{})

	return err
}

// pretendJoined creates the ready Node of a Machine.
func pretendJoined(ctx context.Context, s *harness.Shoot, name string) error {
	nodes := s.Target.CoreV1().Nodes()

	node, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "kubevirt://" + name},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	if err = createLease(ctx, s, node); err != nil {
		return err
	}

	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
	_, err = nodes.Patch(ctx, name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")

	return err
}

// createLease creates the Lease that a kubelet would renew. It is owned by the Node.
func createLease(ctx context.Context, s *harness.Shoot, node *corev1.Node) error {
	_, err := s.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, RenewTime: new(metav1.NowMicro())},
	}, metav1.CreateOptions{})

	return err
}

// renewLease prevents the node-lifecycle controller from marking a Node as not ready.
func renewLease(ctx context.Context, s *harness.Shoot, name string) error {
	renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := s.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, types.MergePatchType, renewed, metav1.PatchOptions{})

	return err
}

// forgetPretended deletes the objects created by pretendRunning and
// pretendJoined, without a sidecar.
func forgetPretended(t *testing.T, s *harness.Shoot, many int) {
	t.Helper()

	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)
	nodes := s.Target.CoreV1().Nodes()
	release := []byte(`{"metadata":{"finalizers":null}}`)

	harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error {
		_, err := machines.Patch(ctx, nthMachine(s, i), types.MergePatchType, release, metav1.PatchOptions{})
		_, nodeErr := nodes.Patch(ctx, nthMachine(s, i), types.MergePatchType, release, metav1.PatchOptions{})

		for _, err := range []error{
			err, nodeErr, machines.Delete(ctx, nthMachine(s, i), metav1.DeleteOptions{}), nodes.Delete(ctx, nthMachine(s, i), metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}

		return nil
	})
}

// memoryAtMost returns the current and the peak memory of a process in MiB.
func memoryAtMost(t *testing.T, p *process.Process) (rss, peak float64) {
	t.Helper()

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	rss, err = fieldOf(status, "VmRSS:")
	require.NoError(t, err)
	peak, err = fieldOf(status, "VmHWM:")
	require.NoError(t, err)

	return rss, peak
}

// settledMemory is memoryAtMost once the memory has stayed within a MiB for a while.
func settledMemory(t *testing.T, p *process.Process) (rss, peak float64) {
	t.Helper()

	const calm, little = 20, 1.0

	var seen []float64

	harness.Eventually(t, "the memory of the sidecar settles", func(context.Context) (bool, error) {
		rss, peak = memoryAtMost(t, p)
		seen = append(seen, rss)

		if len(seen) < calm {
			return false, nil
		}

		last := seen[len(seen)-calm:]

		return slices.Max(last)-slices.Min(last) <= little, nil
	})

	return rss, peak
}

func distinct(rss, peak float64) string {
	return fmt.Sprintf("%s RSS, peak %s", mebibytes(rss), mebibytes(peak))
}

func mebibytes(size float64) string { return fmt.Sprintf("%.0f MiB", size) }
