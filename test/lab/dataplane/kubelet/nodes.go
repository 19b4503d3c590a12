// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet simulates kubelets: their Nodes with heartbeats, and the life of their pods.
//
// Package dataplane runs it for the provider cluster's nodes, and for the guests' pods; package guest uses it for the Nodes of
// guests. It must not depend on the programs in the pods: those are Workloads.
package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// Node is a simulated provider node.
type Node struct {
	// Name of the Node object.
	Name string
	// Region and Zone become topology labels; empty means a Node without that label.
	Region, Zone string
	// CPU and Memory are quantities such as "16" and "64Gi". The real scheduler
	// uses them for placement.
	CPU, Memory string
	// Pods is the node's pod capacity; zero means 110.
	Pods int
	// Taint is the key of a taint that repels pods without a matching toleration; empty means none.
	Taint string
	// WithoutKVM removes hardware virtualization from the node.
	WithoutKVM bool
	// HugePages is the quantity of pages of 2 MiB, such as "4Gi"; empty means none.
	HugePages string
	// CPUFeatures are features of the CPU that virt-handler reports, such as "pcid".
	CPUFeatures []string
}

// DefaultPods is the pod capacity of Nodes that set none.
const DefaultPods = 110

const (
	devices      = "1000" // of each kind: never the reason that a VM does not fit
	kvmDevice    = "devices.kubevirt.io/kvm"
	q35NodeLabel = "machine-type.node.kubevirt.io/q35" // used as a node selector by virt-controller
	cpuModel     = "Simulated"                         // same on all hosts: guests with KubeVirt's default, host-model, can migrate
)

// DefaultNodes returns the provider nodes of a lab: two zones of two nodes each in region "local",
// and one node without topology labels.
func DefaultNodes() []Node {
	return []Node{
		{Name: "provider-a-0", Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi"},
		{Name: "provider-a-1", Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi"},
		{Name: "provider-b-0", Region: "local", Zone: "zone-b", CPU: "16", Memory: "64Gi"},
		{Name: "provider-b-1", Region: "local", Zone: "zone-b", CPU: "16", Memory: "64Gi"},
		{Name: "provider-plain", CPU: "16", Memory: "64Gi"},
	}
}

// GuideNodes returns the provider nodes of the Gardener extension's examples: three zones of region
// "europe-west1", with what the examples ask of their nodes. They have room for the Shoots of all tests
// that run in parallel, each of which may replace all of its machines. The zone of the guide's Shoot has two.
func GuideNodes() []Node {
	var nodes []Node
	for _, name := range []string{"b", "c", "c-1", "d"} {
		nodes = append(nodes, Node{
			Name:        "provider-europe-west1-" + name,
			Region:      "europe-west1",
			Zone:        "europe-west1-" + name[:1],
			CPU:         "64",
			Memory:      "256Gi",
			HugePages:   "32Gi",
			CPUFeatures: []string{"pcid"},
		})
	}
	return nodes
}

// NodeAgent simulates the node side of the provider kubelets and virt-handlers:
// registration, status and heartbeats.
type NodeAgent struct {
	provider *cluster.Provider
	kubelet  string // version
	now      func() time.Time

	mu    sync.Mutex
	nodes map[string]Node // by name
	down  map[string]bool // by name: nodes that have been down, and have not booted since
}

// NewNodeAgent returns the agent of the given hosts, with kubelets of a version.
func NewNodeAgent(provider *cluster.Provider, hosts []Node, kubelet string, now func() time.Time) *NodeAgent {
	a := &NodeAgent{provider: provider, kubelet: kubelet, now: now, nodes: make(map[string]Node, len(hosts)), down: map[string]bool{}}
	for _, host := range hosts {
		a.nodes[host.Name] = host
	}
	return a
}

// RegisterAll registers all hosts.
func (a *NodeAgent) RegisterAll(ctx context.Context) error {
	for _, host := range a.nodes {
		if err := a.register(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a Node is simulated.
func (a *NodeAgent) Has(name string) bool {
	_, ours := a.node(name)
	return ours
}

// Add adds a host to the simulation and registers it.
func (a *NodeAgent) Add(ctx context.Context, node Node) error {
	a.mu.Lock()
	a.nodes[node.Name] = node
	a.mu.Unlock()
	return a.register(ctx, node)
}

// node returns a simulated host.
func (a *NodeAgent) node(name string) (Node, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node, ours := a.nodes[name]
	return node, ours
}

// register creates the Node, or labels a Node that already exists from an earlier run.
func (a *NodeAgent) register(ctx context.Context, spec Node) error {
	node, err := renderNode(spec)
	if err != nil {
		return err
	}
	node.Status.NodeInfo = NodeInfo(a.kubelet)
	nodes := a.provider.Client.CoreV1().Nodes()
	if _, err = nodes.Create(ctx, node, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		patch, jsonErr := json.Marshal(map[string]any{"metadata": map[string]any{"labels": node.Labels}})
		if jsonErr != nil {
			return fmt.Errorf("encode labels of Node %s: %w", spec.Name, jsonErr)
		}
		_, err = nodes.Patch(ctx, spec.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("register Node %s: %w", spec.Name, err)
	}
	return nil
}

// Reconcile reports the status of a live node and sends its heartbeats.
func (a *NodeAgent) Reconcile(ctx context.Context, name string) (time.Duration, error) {
	spec, ours := a.node(name)
	if !ours {
		return 0, nil
	}
	node, err := a.provider.Nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, a.register(ctx, spec)
	}
	if err != nil {
		return 0, fmt.Errorf("read Node %s: %w", name, err)
	}
	if behaviour.IsDown(node) {
		return 0, nil
	}
	if a.wasDown(node) {
		return behaviour.PollInterval, a.reboot(ctx, node)
	}
	if err := a.reportStatus(ctx, node, spec); err != nil {
		return 0, err
	}
	if left := behaviour.Remaining(a.now(), lastHeartbeat(node), behaviour.HeartbeatInterval); left > 0 && schedulable(node) {
		return left, nil
	}
	return behaviour.HeartbeatInterval, a.heartbeat(ctx, node)
}

// reportStatus writes capacity and conditions if they are missing, wrong or old.
func (a *NodeAgent) reportStatus(ctx context.Context, node *corev1.Node, spec Node) error {
	desired := node.DeepCopy()
	capacity, err := spec.capacity()
	if err != nil {
		return err
	}
	desired.Status.Capacity = capacity
	desired.Status.Allocatable = capacity
	desired.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node.Name}}
	return UpdateNodeStatus(ctx, a.provider.Client, node, desired, a.now())
}

// heartbeat renews the kubelet's Lease and virt-handler's annotation, and marks the
// node as schedulable for VMs.
func (a *NodeAgent) heartbeat(ctx context.Context, node *corev1.Node) error {
	if err := RenewLease(ctx, a.provider.Client, node, a.now()); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]string{kubevirtv1.NodeSchedulable: "true"},
		"annotations": map[string]string{kubevirtv1.VirtHandlerHeartbeat: a.now().UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode heartbeat of Node %s: %w", node.Name, err)
	}
	nodes := a.provider.Client.CoreV1().Nodes()
	if _, err = nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("heartbeat of Node %s: %w", node.Name, err)
	}
	return nil
}

// lastHeartbeat returns the time in virt-handler's annotation; the zero time means never.
func lastHeartbeat(node *corev1.Node) time.Time {
	last, err := time.Parse(time.RFC3339, node.Annotations[kubevirtv1.VirtHandlerHeartbeat])
	if err != nil {
		return time.Time{}
	}
	return last
}

// schedulable reports whether virt-controller schedules VMs to a node.
func schedulable(node *corev1.Node) bool {
	return node.Labels[kubevirtv1.NodeSchedulable] == "true"
}

// capacity returns the resources of the node.
func (n Node) capacity() (corev1.ResourceList, error) {
	pods := n.Pods
	if pods == 0 {
		pods = DefaultPods
	}
	cpu, err := resource.ParseQuantity(n.CPU)
	if err != nil {
		return nil, fmt.Errorf("cpu %q of node %s: %w", n.CPU, n.Name, err)
	}
	memory, err := resource.ParseQuantity(n.Memory)
	if err != nil {
		return nil, fmt.Errorf("memory %q of node %s: %w", n.Memory, n.Name, err)
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU:                cpu,
		corev1.ResourceMemory:             memory,
		corev1.ResourcePods:               *resource.NewQuantity(int64(pods), resource.DecimalSI),
		corev1.ResourceEphemeralStorage:   resource.MustParse("500Gi"),
		kvmDevice:                         resource.MustParse(devices),
		"devices.kubevirt.io/tun":         resource.MustParse(devices),
		"devices.kubevirt.io/vhost-net":   resource.MustParse(devices),
		"devices.kubevirt.io/vhost-vsock": resource.MustParse(devices),
	}
	if n.WithoutKVM {
		delete(resources, kvmDevice)
	}
	if n.HugePages != "" {
		pages, err := resource.ParseQuantity(n.HugePages)
		if err != nil {
			return nil, fmt.Errorf("huge pages %q of node %s: %w", n.HugePages, n.Name, err)
		}
		resources[corev1.ResourceHugePagesPrefix+"2Mi"] = pages
	}
	return resources, nil
}

// renderNode returns the Node object as its kubelet registers it.
func renderNode(spec Node) (*corev1.Node, error) {
	capacity, err := spec.capacity()
	if err != nil {
		return nil, err
	}
	labels := OSLabels(spec.Name)
	maps.Copy(labels, map[string]string{
		kubevirtv1.NodeSchedulable: "true",
		q35NodeLabel:               "true",

		kubevirtv1.HostModelCPULabel + cpuModel:              "true",
		kubevirtv1.SupportedHostModelMigrationCPU + cpuModel: "true",
	})
	maps.Copy(labels, TopologyLabels(spec.Region, spec.Zone))
	for _, feature := range spec.CPUFeatures {
		labels[kubevirtv1.CPUFeatureLabel+feature] = "true"
	}
	var taints []corev1.Taint
	if spec.Taint != "" {
		taints = []corev1.Taint{{Key: spec.Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
		},
	}, nil
}
