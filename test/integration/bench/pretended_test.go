// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// pretended are the running machines of a shoot without guests: VirtualMachines that are never started, Machines with the
// status of running ones, and their Nodes with Leases. It holds the names of the Nodes.
type pretended struct {
	*harness.Shoot

	// address is that of all VirtualMachines, without their UIDs.
	address spi.Address

	mu    sync.Mutex
	nodes []string
}

// labels are those by which the driver finds the VirtualMachines.
func (p *pretended) labels() map[string]string {
	return map[string]string{apiv1alpha1.TagCluster: p.address.Cluster, apiv1alpha1.TagRole: p.address.Role}
}

// newPretended renews the Leases of all Nodes until the test ends.
func newPretended(t *testing.T, s *harness.Shoot) *pretended {
	t.Helper()

	kubeconfig, err := clientcmd.RESTConfigFromKubeConfig(s.ProviderKubeconfig)
	require.NoError(t, err)

	p := &pretended{Shoot: s, address: spi.Address{
		Server:    kubeconfig.Host,
		Namespace: s.ProviderNamespace,
		Cluster:   s.Namespace,
		Role:      "node",
	}}

	var renewing sync.WaitGroup

	ctx, cancel := context.WithCancel(t.Context())

	renewing.Go(func() { p.renewLeases(ctx) })
	t.Cleanup(func() {
		cancel()
		renewing.Wait()
	})

	return p
}

// grow adds machines up to a number. The sidecar must not run: it would create those whose status is not written yet.
func (p *pretended) grow(t *testing.T, many int) {
	t.Helper()

	known := len(p.nodes)

	harness.ForEach(t, many-known, harness.FewAtATime, func(ctx context.Context, i int) error {
		name := nthMachine(p.Shoot, known+i)

		uid, err := p.MakeHaltedVM(ctx, name, p.labels())
		if err != nil {
			return err
		}

		if err := p.run(ctx, name, uid); err != nil {
			return err
		}

		return p.join(ctx, name)
	})

	// Also of Nodes whose Lease was renewed late while others were created.
	harness.ForEach(t, many, harness.FewAtATime, func(ctx context.Context, i int) error { return p.heartbeat(ctx, p.nodes[i]) })
}

// run creates a Machine with the status of a running one, and with the address that the driver records.
func (p *pretended) run(ctx context.Context, name string, vm types.UID) error {
	machines := p.MCM.MachineV1alpha1().Machines(p.Namespace)
	address := p.address
	address.UID = vm

	m := wantedMachines(p.Shoot, name)
	m.Annotations = map[string]string{spi.AnnotationAddress: address.Encode()}
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

// join creates the Node of a Machine.
func (p *pretended) join(ctx context.Context, name string) error {
	node, err := p.Target.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "kubevirt://" + name},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	if err := p.createLease(ctx, node); err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	p.nodes = append(p.nodes, name)

	return nil
}

// heartbeat reports that a Node is ready.
func (p *pretended) heartbeat(ctx context.Context, node string) error {
	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
	_, err := p.Target.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")

	return err
}

// createLease creates the Lease that a kubelet would renew. It is owned by the Node.
func (p *pretended) createLease(ctx context.Context, node *corev1.Node) error {
	_, err := p.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
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

// renewLeases prevents the node-lifecycle controller from marking Nodes as not ready, which it does within a minute.
func (p *pretended) renewLeases(ctx context.Context) {
	const every = 20 * time.Second

	round := time.NewTicker(every)
	defer round.Stop()

	for {
		p.mu.Lock()
		nodes := slices.Clone(p.nodes)
		p.mu.Unlock()

		var requests errgroup.Group

		requests.SetLimit(harness.FewAtATime)

		for _, name := range nodes {
			requests.Go(func() error { return p.renewLease(ctx, name) })
		}

		_ = requests.Wait() // The next round repeats what has failed, and a Node that is not ready fails the test.

		select {
		case <-ctx.Done():
			return
		case <-round.C:
		}
	}
}

func (p *pretended) renewLease(ctx context.Context, name string) error {
	renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := p.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, types.MergePatchType, renewed, metav1.PatchOptions{})

	return err
}

// allRun reports whether the sidecar knows all Machines, and all of them run.
func (p *pretended) allRun(ctx context.Context) (bool, error) {
	list, err := p.MCM.MachineV1alpha1().Machines(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}

	return !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool {
		return len(m.Finalizers) == 0 || m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning
	}), nil
}

// nthMachine returns the name of the shoot's ith machine. Of a thousand successive ones, none have the same bootstrap token,
// whose ID machine-controller-manager makes from the first three of the name's last five characters.
func nthMachine(s *harness.Shoot, i int) string { return fmt.Sprintf("%s-%04d-m", s.Name, i) }
