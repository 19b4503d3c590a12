// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"kubevirt.io/client-go/kubevirt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/guest"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/handler"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/importer"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/storage"
)

// workersPerPart is the number of workers per controller: enough to keep an API server busy.
const workersPerPart = 4

// Config holds the clusters that the data plane simulates, and the identities it uses.
type Config struct {
	// Provider has administrator permissions in the provider cluster: Nodes, Leases, pods,
	// volumes, claims, Secrets.
	Provider *rest.Config
	// VirtHandler impersonates system:serviceaccount:kubevirt:kubevirt-handler in the provider
	// cluster; it is used only to read and write VirtualMachineInstances.
	VirtHandler *rest.Config
	// Target has administrator permissions in the target cluster, which the guests join.
	Target *rest.Config
	// Nodes are the provider cluster's nodes.
	Nodes []kubelet.Node
	// KubeletVersion is that of the simulated kubelets, in both clusters. It must not be newer than the
	// API servers'.
	KubeletVersion string
	// Log receives one line per event; nil discards them.
	Log io.Writer
}

// DataPlane is a running simulation.
type DataPlane struct {
	wg    sync.WaitGroup
	agent *kubelet.NodeAgent
}

// AddNode adds a host to the provider cluster. A restarted simulation of the same
// cluster does not know it.
func (d *DataPlane) AddNode(ctx context.Context, node kubelet.Node) error {
	return d.agent.Add(ctx, node)
}

// Wait returns when everything started by Start has ended after its context is done.
func (d *DataPlane) Wait() {
	d.wg.Wait()
}

// Start registers the nodes and returns when the caches are synced and all parts run. KubeVirt's
// CRDs must exist. The simulation runs until the context is done.
func Start(ctx context.Context, c Config) (*DataPlane, error) {
	provider, target, err := connect(c)
	if err != nil {
		return nil, err
	}
	parts := newParts(c, provider, target)
	if err := parts.watch(); err != nil {
		return nil, err
	}
	d := &DataPlane{agent: parts.agent}
	d.wg.Go(func() { provider.Instances.RunWithContext(ctx) })
	if err := provider.Sync(ctx); err != nil {
		return nil, err
	}
	if err := target.Sync(ctx); err != nil {
		return nil, err
	}
	if err := parts.prepare(ctx); err != nil {
		return nil, err
	}
	for _, part := range parts.all() {
		d.wg.Go(func() { part.run(ctx, workersPerPart) })
	}
	d.wg.Go(func() {
		<-ctx.Done()
		provider.Factory.Shutdown()
		target.Factory.Shutdown()
	})
	return d, nil
}

// connect returns the two clusters with unsynced caches.
func connect(c Config) (*cluster.Provider, *cluster.Target, error) {
	admin, err := kubernetes.NewForConfig(unlimited(c.Provider))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to provider cluster: %w", err)
	}
	virtHandler, err := kubevirt.NewForConfig(handler.NamingNodes(unlimited(c.VirtHandler)))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to provider cluster as virt-handler: %w", err)
	}
	target, err := kubernetes.NewForConfig(unlimited(c.Target))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to target cluster: %w", err)
	}
	return cluster.NewProvider(admin, virtHandler), cluster.NewTarget(target), nil
}

// unlimited returns a copy without client-side rate limit, since one client
// acts for a whole data plane.
func unlimited(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS = -1
	return c
}

// parts are the controllers of the data plane and their shared state.
type parts struct {
	provider  *cluster.Provider
	target    *cluster.Target
	agent     *kubelet.NodeAgent
	workloads *providerWorkloads
	guests    *guest.Guests

	nodes      *controller
	pods       *controller
	handler    *controller
	claims     *controller
	volumes    *controller
	guestNodes *controller
	guestPods  *controller
	guestWork  *guest.Workloads
}

// newParts wires the parts without starting them.
func newParts(c Config, provider *cluster.Provider, target *cluster.Target) *parts {
	out := c.Log
	if out == nil {
		out = io.Discard
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	now := time.Now
	conduct := behaviour.Reader{Namespaces: provider.Namespaces}
	p := &parts{
		provider:  provider,
		target:    target,
		agent:     kubelet.NewNodeAgent(provider, c.Nodes, c.KubeletVersion, now),
		guests:    guest.New(provider, target, conduct, c.KubeletVersion, now, log.With("part", "guests")),
		guestWork: &guest.Workloads{Addresses: kubelet.NewAddressPool(10, 245)},
	}
	p.workloads = &providerWorkloads{
		startup:   &kubelet.Startup{Provider: provider, Now: now},
		launchers: &handler.Launchers{Provider: provider, Now: now},
		workers:   &importer.Workers{Provider: provider, Behaviour: conduct, Now: now},
		addresses: kubelet.NewAddressPool(10, 244),
		loopback:  kubelet.NewAddressPool(127, 244),
		now:       now,
	}
	virt := &handler.VirtHandler{
		Provider:  provider,
		Behaviour: conduct,
		Now:       now,
		Log:       log.With("part", "virt-handler"),
	}
	csi := &storage.Driver{
		Provider:  provider,
		Behaviour: conduct,
		Now:       now,
		Log:       log.With("part", "storage"),
	}
	p.nodes = newController("nodes", log, p.agent.Reconcile)
	p.handler = newController("virt-handler", log, virt.Reconcile)
	p.claims = newController("provisioner", log, csi.ReconcileClaim)
	p.volumes = newController("deleter", log, csi.ReconcileVolume)
	p.guestNodes = newController("guests", log, p.guests.Reconcile)
	p.runPods(log, now)
	return p
}

// runPods wires the kubelets of the provider cluster's nodes and of the guests.
func (p *parts) runPods(log *slog.Logger, now func() time.Time) {
	pods := &kubelet.PodAgent{
		Client:    p.provider.Client,
		Pods:      p.provider.Pods,
		Runs:      p.runsProviderPods,
		Workloads: p.workloads,
		Now:       now,
	}
	guestPods := &kubelet.PodAgent{
		Client:    p.target.Client,
		Pods:      p.target.Pods,
		Runs:      p.runsGuestPods,
		Workloads: p.guestWork,
		Now:       now,
	}
	p.pods = newController("kubelet", log, pods.Reconcile)
	p.guestPods = newController("guest-kubelet", log, guestPods.Reconcile)
}

// all returns every controller.
func (p *parts) all() []*controller {
	return []*controller{p.nodes, p.pods, p.handler, p.claims, p.volumes, p.guestNodes, p.guestPods}
}

// prepare registers the nodes and reserves the pod IPs assigned by earlier runs.
func (p *parts) prepare(ctx context.Context) error {
	if err := p.agent.RegisterAll(ctx); err != nil {
		return err
	}
	provider, err := p.provider.Pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list provider pods: %w", err)
	}
	guest, err := p.target.Pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list target pods: %w", err)
	}
	for _, pod := range provider {
		p.workloads.addresses.Reserve(pod.Status.PodIP)
		p.workloads.loopback.Reserve(pod.Status.PodIP)
	}
	for _, pod := range guest {
		p.guestWork.Addresses.Reserve(pod.Status.PodIP)
	}
	return nil
}

// runsProviderPods reports whether a node is simulated and up.
func (p *parts) runsProviderPods(node string) bool {
	return p.agent.Has(node) && p.provider.NodeUp(node)
}

// runsGuestPods reports whether a target Node belongs to a running guest.
func (p *parts) runsGuestPods(name string) bool {
	node, err := p.target.Nodes.Get(name)
	if err != nil {
		return false
	}
	instance, err := p.provider.Instance(node.Annotations[guest.InstanceAnnotation])
	return err == nil && instance.IsRunning() && p.provider.NodeUp(instance.Status.NodeName)
}
