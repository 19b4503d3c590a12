package dataplane

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubevirtv1 "kubevirt.io/api/core/v1"
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

const (
	defaultPods    = 110
	devices        = "1000" // of each kind: never the reason that a VM does not fit
	kvmDevice      = "devices.kubevirt.io/kvm"
	leaseSeconds   = 40
	statusPeriod   = 5 * time.Minute // kubelet reports an unchanged status this often
	leaseNamespace = corev1.NamespaceNodeLease
	q35NodeLabel   = "machine-type.node.kubevirt.io/q35" // used as a node selector by virt-controller
	cpuModel       = "Simulated"                         // same on all hosts: guests with KubeVirt's default, host-model, can migrate
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
// that run in parallel, each of which may replace all of its machines.
func GuideNodes() []Node {
	var nodes []Node
	for _, zone := range []string{"b", "c", "d"} {
		nodes = append(nodes, Node{
			Name:        "provider-europe-west1-" + zone,
			Region:      "europe-west1",
			Zone:        "europe-west1-" + zone,
			CPU:         "64",
			Memory:      "256Gi",
			HugePages:   "32Gi",
			CPUFeatures: []string{"pcid"},
		})
	}
	return nodes
}

// nodeAgent simulates the node side of the provider kubelets and virt-handlers:
// registration, status and heartbeats.
type nodeAgent struct {
	provider *providerCluster
	kubelet  string // version
	now      func() time.Time

	mu    sync.Mutex
	nodes map[string]Node // by name
}

// newNodeAgent returns the agent of the given hosts, with kubelets of a version.
func newNodeAgent(provider *providerCluster, hosts []Node, kubelet string, now func() time.Time) *nodeAgent {
	a := &nodeAgent{provider: provider, kubelet: kubelet, now: now, nodes: make(map[string]Node, len(hosts))}
	for _, host := range hosts {
		a.nodes[host.Name] = host
	}
	return a
}

// registerAll registers all hosts.
func (a *nodeAgent) registerAll(ctx context.Context) error {
	for _, host := range a.nodes {
		if err := a.register(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a Node is simulated.
func (a *nodeAgent) has(name string) bool {
	_, ours := a.node(name)
	return ours
}

// add adds a host to the simulation and registers it.
func (a *nodeAgent) add(ctx context.Context, node Node) error {
	a.mu.Lock()
	a.nodes[node.Name] = node
	a.mu.Unlock()
	return a.register(ctx, node)
}

// node returns a simulated host.
func (a *nodeAgent) node(name string) (Node, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node, ours := a.nodes[name]
	return node, ours
}

// register creates the Node, or labels a Node that already exists from an earlier run.
func (a *nodeAgent) register(ctx context.Context, spec Node) error {
	node, err := renderNode(spec)
	if err != nil {
		return err
	}
	node.Status.NodeInfo = nodeInfo(a.kubelet)
	nodes := a.provider.client.CoreV1().Nodes()
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

// reconcile reports the status of a live node and sends its heartbeats.
func (a *nodeAgent) reconcile(ctx context.Context, name string) (time.Duration, error) {
	spec, ours := a.node(name)
	if !ours {
		return 0, nil
	}
	node, err := a.provider.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, a.register(ctx, spec)
	}
	if err != nil {
		return 0, fmt.Errorf("read Node %s: %w", name, err)
	}
	if isDown(node) {
		return 0, nil
	}
	if err := a.reportStatus(ctx, node, spec); err != nil {
		return 0, err
	}
	if left := remaining(a.now(), lastHeartbeat(node), heartbeatInterval); left > 0 && schedulable(node) {
		return left, nil
	}
	return heartbeatInterval, a.heartbeat(ctx, node)
}

// reportStatus writes capacity and conditions if they are missing, wrong or old.
func (a *nodeAgent) reportStatus(ctx context.Context, node *corev1.Node, spec Node) error {
	desired := node.DeepCopy()
	capacity, err := spec.capacity()
	if err != nil {
		return err
	}
	desired.Status.Capacity = capacity
	desired.Status.Allocatable = capacity
	desired.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node.Name}}
	return updateNodeStatus(ctx, a.provider.client, node, desired, a.now())
}

// heartbeat renews the kubelet's Lease and virt-handler's annotation, and marks the
// node as schedulable for VMs.
func (a *nodeAgent) heartbeat(ctx context.Context, node *corev1.Node) error {
	if err := renewLease(ctx, a.provider.client, node, a.now()); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]string{kubevirtv1.NodeSchedulable: "true"},
		"annotations": map[string]string{kubevirtv1.VirtHandlerHeartbeat: a.now().UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode heartbeat of Node %s: %w", node.Name, err)
	}
	nodes := a.provider.client.CoreV1().Nodes()
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
		pods = defaultPods
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
	labels := osLabels(spec.Name)
	maps.Copy(labels, map[string]string{
		kubevirtv1.NodeSchedulable: "true",
		q35NodeLabel:               "true",

		kubevirtv1.HostModelCPULabel + cpuModel:              "true",
		kubevirtv1.SupportedHostModelMigrationCPU + cpuModel: "true",
	})
	maps.Copy(labels, topologyLabels(spec.Region, spec.Zone))
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

// osLabels returns the labels that every kubelet sets.
func osLabels(hostname string) map[string]string {
	return map[string]string{
		corev1.LabelHostname:   hostname,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
}

// topologyLabels returns the labels of a region and a zone, omitting empty ones.
func topologyLabels(region, zone string) map[string]string {
	labels := map[string]string{}
	if region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	return labels
}

// nodeInfo returns the system info that kubelets of a version report.
func nodeInfo(kubelet string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		OperatingSystem:         "linux",
		Architecture:            "amd64",
		KubeletVersion:          kubelet,
		OSImage:                 "Simulated Linux",
		KernelVersion:           "6.12.0-sim",
		ContainerRuntimeVersion: "sim://1.0.0",
	}
}

// updateNodeStatus writes desired with the conditions of a healthy kubelet, if the status changed
// or the last report is old.
func updateNodeStatus(ctx context.Context, client kubernetes.Interface, node, desired *corev1.Node, now time.Time) error {
	healthy := []corev1.NodeCondition{
		nodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		nodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		nodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
	for _, condition := range healthy {
		setNodeCondition(&desired.Status, condition, now)
	}
	if equality.Semantic.DeepEqual(node.Status, desired.Status) {
		return nil
	}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, desired, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of Node %s: %w", node.Name, err)
	}
	return nil
}

// nodeCondition returns a condition as kubelets report it.
func nodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: "reported by the simulated kubelet"}
}

// setNodeCondition stores a condition. If it is unchanged, only an old heartbeat time is updated.
func setNodeCondition(status *corev1.NodeStatus, condition corev1.NodeCondition, now time.Time) {
	condition.LastHeartbeatTime = metav1.NewTime(now)
	condition.LastTransitionTime = metav1.NewTime(now)
	for i, current := range status.Conditions {
		if current.Type != condition.Type {
			continue
		}
		if current.Status != condition.Status || current.Reason != condition.Reason {
			status.Conditions[i] = condition
		} else if now.Sub(current.LastHeartbeatTime.Time) >= statusPeriod {
			status.Conditions[i].LastHeartbeatTime = condition.LastHeartbeatTime
		}
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

// renewLease creates or renews the Lease that the node-lifecycle controller uses
// as a kubelet's heartbeat.
func renewLease(ctx context.Context, client kubernetes.Interface, node *corev1.Node, now time.Time) error {
	leases := client.CoordinationV1().Leases(leaseNamespace)
	lease := renderLease(node, now)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"ownerReferences": lease.OwnerReferences},
		"spec":     lease.Spec,
	})
	if err != nil {
		return fmt.Errorf("encode Lease %s: %w", node.Name, err)
	}
	_, err = leases.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew Lease %s: %w", node.Name, err)
	}
	return nil
}

// renderLease returns a node's Lease, with an owner reference to the Node so that
// both are deleted together.
func renderLease(node *corev1.Node, now time.Time) *coordinationv1.Lease {
	holder := node.Name
	seconds := int32(leaseSeconds)
	renewed := metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      node.Name,
			Namespace: leaseNamespace,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}
