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
	Nodes []Node
	// KubeletVersion is that of the simulated kubelets, in both clusters. It must not be newer than the
	// API servers'.
	KubeletVersion string
	// Hypervisor boots the guests with GuestAnnotation; nil if there are none.
	Hypervisor Hypervisor
	// Log receives one line per event; nil discards them.
	Log io.Writer
}

// DataPlane is a running simulation.
type DataPlane struct {
	wg    sync.WaitGroup
	agent *nodeAgent
}

// AddNode adds a host to the provider cluster. A restarted simulation of the same
// cluster does not know it.
func (d *DataPlane) AddNode(ctx context.Context, node Node) error {
	return d.agent.add(ctx, node)
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
	d.wg.Go(func() { provider.instances.RunWithContext(ctx) })
	if err := provider.sync(ctx); err != nil {
		return nil, err
	}
	if err := target.sync(ctx); err != nil {
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
		provider.factory.Shutdown()
		target.factory.Shutdown()
	})
	return d, nil
}

// connect returns the two clusters with unsynced caches.
func connect(c Config) (*providerCluster, *targetCluster, error) {
	admin, err := kubernetes.NewForConfig(unlimited(c.Provider))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to provider cluster: %w", err)
	}
	handler, err := kubevirt.NewForConfig(namingNodes(unlimited(c.VirtHandler)))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to provider cluster as virt-handler: %w", err)
	}
	guest, err := kubernetes.NewForConfig(unlimited(c.Target))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to target cluster: %w", err)
	}
	return newProviderCluster(admin, handler), newTargetCluster(guest), nil
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
	provider  *providerCluster
	target    *targetCluster
	agent     *nodeAgent
	workloads *providerWorkloads
	guests    *guests

	nodes      *controller
	pods       *controller
	handler    *controller
	claims     *controller
	volumes    *controller
	guestNodes *controller
	guestPods  *controller
	guestWork  *guestWorkloads
}

// newParts wires the parts without starting them.
func newParts(c Config, provider *providerCluster, target *targetCluster) *parts {
	out := c.Log
	if out == nil {
		out = io.Discard
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	now := time.Now
	conduct := behaviour{namespaces: provider.namespaces}
	p := &parts{
		provider:  provider,
		target:    target,
		agent:     newNodeAgent(provider, c.Nodes, c.KubeletVersion, now),
		guests:    newGuests(provider, target, conduct, c.KubeletVersion, now, log.With("part", "guests")),
		guestWork: &guestWorkloads{addresses: newAddressPool(10, 245)},
	}
	var content Volumes
	if c.Hypervisor != nil {
		content = c.Hypervisor
	}
	p.workloads = &providerWorkloads{
		startup:   &startup{provider: provider, now: now},
		launchers: &launchers{provider: provider, now: now},
		workers:   &workers{provider: provider, behaviour: conduct, volumes: content, now: now},
		addresses: newAddressPool(10, 244),
		loopback:  newAddressPool(127, 244),
		now:       now,
	}
	pods := &kubelet{
		client:    provider.client,
		pods:      provider.pods,
		runs:      p.runsProviderPods,
		workloads: p.workloads,
		now:       now,
	}
	guestPods := &kubelet{
		client:    target.client,
		pods:      target.pods,
		runs:      p.runsGuestPods,
		workloads: p.guestWork,
		now:       now,
	}
	virt := &virtHandler{
		provider:   provider,
		behaviour:  conduct,
		hypervisor: c.Hypervisor,
		now:        now,
		log:        log.With("part", "virt-handler"),
	}
	csi := &storageDriver{
		provider:  provider,
		behaviour: conduct,
		volumes:   content,
		now:       now,
		log:       log.With("part", "storage"),
	}
	p.nodes = newController("nodes", log, p.agent.reconcile)
	p.pods = newController("kubelet", log, pods.reconcile)
	p.handler = newController("virt-handler", log, virt.reconcile)
	p.claims = newController("provisioner", log, csi.reconcileClaim)
	p.volumes = newController("deleter", log, csi.reconcileVolume)
	p.guestNodes = newController("guests", log, p.guests.reconcile)
	p.guestPods = newController("guest-kubelet", log, guestPods.reconcile)
	return p
}

// all returns every controller.
func (p *parts) all() []*controller {
	return []*controller{p.nodes, p.pods, p.handler, p.claims, p.volumes, p.guestNodes, p.guestPods}
}

// prepare registers the nodes and reserves the pod IPs assigned by earlier runs.
func (p *parts) prepare(ctx context.Context) error {
	if err := p.agent.registerAll(ctx); err != nil {
		return err
	}
	provider, err := p.provider.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list provider pods: %w", err)
	}
	guest, err := p.target.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list target pods: %w", err)
	}
	for _, pod := range provider {
		p.workloads.addresses.reserve(pod.Status.PodIP)
		p.workloads.loopback.reserve(pod.Status.PodIP)
	}
	for _, pod := range guest {
		p.guestWork.addresses.reserve(pod.Status.PodIP)
	}
	return nil
}

// runsProviderPods reports whether a node is simulated and up.
func (p *parts) runsProviderPods(node string) bool {
	return p.agent.has(node) && p.provider.nodeUp(node)
}

// runsGuestPods reports whether a target Node belongs to a running guest.
func (p *parts) runsGuestPods(name string) bool {
	node, err := p.target.nodes.Get(name)
	if err != nil {
		return false
	}
	instance, err := p.provider.instance(node.Annotations[InstanceAnnotation])
	return err == nil && instance.IsRunning() && p.provider.nodeUp(instance.Status.NodeName)
}
