//go:build bench

package integration

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// benchMemory measures the sidecar of a shoot without machines, and of shoots
// with many running machines.
func benchMemory(t *testing.T, b *bench) {
	rss, peak := idleMemory(t)
	b.note("memory of the idle sidecar", distinct(rss, peak))

	rss, peak = runningMemory(t, hundred)
	b.judge(fmt.Sprintf("memory of the sidecar beside %d Machines that run, and their Nodes (pretended: no VirtualMachines)", hundred), distinct(rss, peak), rss, 80, "MiB RSS")

	rss, peak = runningMemory(t, thousand)
	b.note(fmt.Sprintf("memory of the sidecar beside %d Machines that run, and their Nodes (pretended: no VirtualMachines)", thousand), distinct(rss, peak))
}

// idleMemory returns the memory of an idle sidecar that knows one class.
func idleMemory(t *testing.T) (rss, peak float64) {
	t.Helper()

	s := newShoot(t)
	l := s.proxy(t)
	s.applyCredentials(t)
	s.addClass(t, s.spec("zone-a", ephemeralRoot))

	process := s.startSidecar(t)

	eventually(t, "the sidecar has its caches and looks for orphans", func(context.Context) (bool, error) {
		return l.asked("list virtualmachines") > 0, nil
	})

	return settledMemory(t, process)
}

// runningMemory returns the memory of a sidecar with many running Machines and their Nodes, which
// its caches hold. The driver keeps no state for running machines, so there are no VirtualMachines.
func runningMemory(t *testing.T, many int) (rss, peak float64) {
	t.Helper()

	s := newShoot(t)
	s.applyCredentials(t)
	s.addClass(t, s.spec("zone-a", ephemeralRoot))

	defer s.forgetPretended(t, many)

	forEach(t, many, few, func(ctx context.Context, i int) error { return s.pretendRunning(ctx, s.nth(i)) })
	forEach(t, many, few, func(ctx context.Context, i int) error { return s.pretendJoined(ctx, s.nth(i)) })

	process := s.startSidecar(t)

	within(t, longest, "the sidecar has worked on all Machines", func(ctx context.Context) (bool, error) {
		forEach(t, many, few, func(ctx context.Context, i int) error { return s.renewLease(ctx, s.nth(i)) }) //nolint:contextcheck // It ends with the test.

		return s.allRun(ctx, many)
	})

	rss, peak = settledMemory(t, process)
	still, err := s.allRun(t.Context(), many)
	require.NoError(t, err)
	require.True(t, still, "all Machines run")
	require.NoError(t, process.Stop(t.Context()))

	return rss, peak
}

// allRun reports whether the expected number of Machines exist, the sidecar knows them, and all of
// them run.
func (s *shoot) allRun(ctx context.Context, many int) (bool, error) {
	list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}

	return len(list.Items) == many && !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool {
		return len(m.Finalizers) == 0 || m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning
	}), nil
}

// nth returns the name of the shoot's ith machine.
func (s *shoot) nth(i int) string { return fmt.Sprintf("%s-%d", s.Name, i) }

// pretendRunning creates a Machine with the status of a running one.
func (s *shoot) pretendRunning(ctx context.Context, name string) error {
	machines := s.mcm.MachineV1alpha1().Machines(s.Namespace)
	m := s.wanted(name)
	m.Labels[v1alpha1.NodeLabelKey], m.Spec.ProviderID = name, "kubevirt://"+name

	m, err := machines.Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	m.Status.CurrentStatus = v1alpha1.CurrentStatus{Phase: v1alpha1.MachineRunning, LastUpdateTime: metav1.Now()}
	_, err = machines.UpdateStatus(ctx, m, metav1.UpdateOptions{})

	return err
}

// pretendJoined creates the ready Node of a Machine.
func (s *shoot) pretendJoined(ctx context.Context, name string) error {
	nodes := s.target.CoreV1().Nodes()

	node, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "kubevirt://" + name},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	if err = s.createLease(ctx, node); err != nil {
		return err
	}

	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
	_, err = nodes.Patch(ctx, name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")

	return err
}

// createLease creates the Lease that a kubelet would renew. It is owned by the Node.
func (s *shoot) createLease(ctx context.Context, node *corev1.Node) error {
	_, err := s.target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, RenewTime: new(metav1.NowMicro())},
	}, metav1.CreateOptions{})

	return err
}

// renewLease prevents the node-lifecycle controller from marking a Node as not ready.
func (s *shoot) renewLease(ctx context.Context, name string) error {
	renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := s.target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, types.MergePatchType, renewed, metav1.PatchOptions{})

	return err
}

// forgetPretended deletes the objects created by pretendRunning and
// pretendJoined, without a sidecar.
func (s *shoot) forgetPretended(t *testing.T, many int) {
	t.Helper()

	machines, nodes := s.mcm.MachineV1alpha1().Machines(s.Namespace), s.target.CoreV1().Nodes()
	release := []byte(`{"metadata":{"finalizers":null}}`)

	forEach(t, many, few, func(ctx context.Context, i int) error {
		_, err := machines.Patch(ctx, s.nth(i), types.MergePatchType, release, metav1.PatchOptions{})
		_, nodeErr := nodes.Patch(ctx, s.nth(i), types.MergePatchType, release, metav1.PatchOptions{})

		for _, err := range []error{
			err, nodeErr, machines.Delete(ctx, s.nth(i), metav1.DeleteOptions{}), nodes.Delete(ctx, s.nth(i), metav1.DeleteOptions{}),
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

	eventually(t, "the memory of the sidecar settles", func(context.Context) (bool, error) {
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
