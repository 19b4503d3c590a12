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
	mcminformers "github.com/gardener/machine-controller-manager/pkg/client/informers/externalversions"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// pretended are the running machines of a shoot without guests: VirtualMachines that are never started, Machines with the
// fields of running ones, and their Nodes, with what a kubelet writes. It holds the names of the Nodes.
type pretended struct {
	*harness.Shoot

	// address is that of all VirtualMachines, without their UIDs.
	address spi.Address
	// since is when all Nodes became ready.
	since time.Time
	// The informers hold the Machines and the Nodes: repeated lists of thousands would keep the API servers busy.
	machineInformer, nodeInformer cache.SharedInformer

	mu    sync.Mutex
	nodes []string
}

// labels are those by which the driver finds the VirtualMachines.
func (p *pretended) labels() map[string]string {
	return map[string]string{apiv1alpha1.TagCluster: p.address.Cluster, apiv1alpha1.TagRole: p.address.Role}
}

// newPretended acts as the kubelets of all Nodes until the test ends.
func newPretended(t *testing.T, s *harness.Shoot) *pretended {
	t.Helper()

	kubeconfig, err := clientcmd.RESTConfigFromKubeConfig(s.ProviderKubeconfig)
	require.NoError(t, err)

	machines := mcminformers.NewSharedInformerFactoryWithOptions(s.MCM, 0, mcminformers.WithNamespace(s.Namespace))
	p := &pretended{
		Shoot: s,
		address: spi.Address{
			Server:    kubeconfig.Host,
			Namespace: s.ProviderNamespace,
			Cluster:   s.Namespace,
			Role:      "node",
		},
		since:           time.Now(),
		machineInformer: machines.Machine().V1alpha1().Machines().Informer(),
		nodeInformer:    informers.NewSharedInformerFactory(s.Target, 0).Core().V1().Nodes().Informer(),
	}

	p.runKubelets(t)

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

	harness.Within(t, longest, "all Nodes are ready", func(context.Context) (bool, error) {
		nodes := p.nodeInformer.GetStore().List()

		return len(nodes) == many && !slices.ContainsFunc(nodes, func(node any) bool { return !isReady(node.(*corev1.Node)) }), nil
	})
}

// run creates a Machine with the fields of a running one of Gardener, and with the address that the driver records. It has
// no owner: the garbage collector would delete it with a MachineSet that does not exist.
func (p *pretended) run(ctx context.Context, name string, vm types.UID) error {
	machines := p.MCM.MachineV1alpha1().Machines(p.Namespace)
	address := p.address
	address.UID = vm

	m := wantedMachines(p.Shoot, name)
	m.Annotations = map[string]string{spi.AnnotationAddress: address.Encode()}
	m.Labels[v1alpha1.NodeLabelKey] = name
	m.Labels["machine-template-hash"] = "67d9c5b4f8"
	m.Spec.ProviderID = nodeProviderID(name)
	m.Spec.NodeTemplateSpec = nodeTemplate()
	m.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{
		MachineDrainTimeout:    &metav1.Duration{Duration: 2 * time.Hour},
		MachineHealthTimeout:   &metav1.Duration{Duration: 10 * time.Minute},
		MachineCreationTimeout: &metav1.Duration{Duration: 20 * time.Minute},
		NodeConditions:         new("KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"),
	}

	m, err := machines.Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	m.Status = v1alpha1.MachineStatus{
		Addresses:     nodeAddresses(name),
		Conditions:    nodeConditions(p.since),
		CurrentStatus: v1alpha1.CurrentStatus{Phase: v1alpha1.MachineRunning, LastUpdateTime: metav1.Now()},
		LastOperation: v1alpha1.LastOperation{
			Description:    "Machine " + name + " successfully joined the cluster",
			LastUpdateTime: metav1.Now(),
			State:          v1alpha1.MachineStateSuccessful,
			Type:           v1alpha1.MachineOperationCreate,
		},
	}
	_, err = machines.UpdateStatus(ctx, m, metav1.UpdateOptions{})

	return err
}

// allRun reports whether the sidecar knows all Machines, and all of them run.
func (p *pretended) allRun() bool {
	machines := p.machineInformer.GetStore().List()

	return len(machines) == len(p.nodes) && !slices.ContainsFunc(machines, func(object any) bool {
		m := object.(*v1alpha1.Machine)

		return len(m.Finalizers) == 0 || m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning
	})
}

// nthMachine returns the name of the shoot's ith machine. Of a thousand successive ones, none have the same bootstrap token,
// whose ID machine-controller-manager makes from the first three of the name's last five characters.
func nthMachine(s *harness.Shoot, i int) string { return fmt.Sprintf("%s-%04d-m", s.Name, i) }
