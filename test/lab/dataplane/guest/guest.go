// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package guest simulates the guests' operating systems, whose kubelets join the target cluster.
//
// Package dataplane runs it for all running VirtualMachineInstances. It must not depend on the driver.
package guest

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

const (
	// UserDataHashAnnotation of a target Node holds the SHA-256 (hex) of the user
	// data read by its guest.
	UserDataHashAnnotation = "sim.lab/user-data-sha256"
	// InstanceAnnotation of a target Node holds namespace/name of its VirtualMachineInstance.
	InstanceAnnotation = "sim.lab/instance"

	hostAnnotation       = "sim.lab/provider-node"
	diskAnnotation       = "sim.lab/disk" // stores the guest kubelet's credentials
	bootstrapTokenPrefix = "bootstrap-token-"
	bootstrapTokenKey    = "token-secret"
	providerIDPrefix     = "kubevirt://"
	defaultInterface     = "default" // its IP is read by the cloud controller manager
	// attachedByController is the annotation with which a kubelet leaves it to kube-controller-manager to attach volumes.
	attachedByController = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// registrationDelay is the time until a running guest registers its deleted Node again.
const registrationDelay = 10 * time.Second

// Guests simulates the operating systems of all running VirtualMachineInstances. Each guest reads
// its user data, joins the target cluster with the bootstrap token found there, and keeps its Node
// alive. It never deletes a Node.
type Guests struct {
	provider  *cluster.Provider
	target    *cluster.Target
	behaviour behaviour.Reader
	kubelet   string // version
	now       func() time.Time
	log       *slog.Logger
	tokens    *regexp.Regexp

	mu       sync.Mutex
	removed  map[string]removal        // by Node name
	accepted map[bootstrapToken]string // the instance (namespace/name) that joined first with a token
}

// removal is the deletion of a target Node, which its kubelet notices only after a delay.
type removal struct {
	at   time.Time
	disk string
}

// New returns the guests of a provider cluster.
func New(p *cluster.Provider, t *cluster.Target, b behaviour.Reader, kubelet string, now func() time.Time, log *slog.Logger) *Guests {
	return &Guests{
		provider:  p,
		target:    t,
		behaviour: b,
		kubelet:   kubelet,
		now:       now,
		log:       log,
		tokens:    regexp.MustCompile(`\b([a-z0-9]{6})\.([a-z0-9]{16})\b`),
		removed:   map[string]removal{},
		accepted:  map[bootstrapToken]string{},
	}
}

// Reconcile joins the guest of a VirtualMachineInstance, keeps its Node alive,
// or reports its shutdown.
func (g *Guests) Reconcile(ctx context.Context, key string) (time.Duration, error) {
	instance, err := g.provider.Instance(key)
	if apierrors.IsNotFound(err) || (err == nil && instance.Status.Phase == kubevirtv1.Succeeded) {
		return 0, g.leave(ctx, key)
	}
	if err != nil {
		return 0, err
	}
	if !g.hasKubelet(instance) {
		return 0, nil
	}
	latency := g.behaviour.Latency(instance.Namespace, behaviour.JoinLatencyAnnotation)
	if left := behaviour.Remaining(g.now(), cluster.PhaseSince(instance, kubevirtv1.Running), latency); left > 0 {
		return left, nil
	}
	node, err := g.target.Nodes.Get(hostname(instance))
	switch {
	case apierrors.IsNotFound(err):
		return g.join(ctx, instance)
	case err != nil:
		return 0, fmt.Errorf("read target Node of %s: %w", key, err)
	default:
		return g.keepAlive(ctx, instance, node)
	}
}

// hasKubelet reports whether a simulated guest runs on a live node and has a working kubelet.
func (g *Guests) hasKubelet(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance.IsRunning() && !behaviour.HasFault(instance, behaviour.FaultNoJoin) && g.provider.NodeUp(instance.Status.NodeName)
}

// join registers the Node of a guest that has a valid bootstrap token, or had
// one when it wrote its disk.
func (g *Guests) join(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) (time.Duration, error) {
	name := hostname(instance)
	before := g.removalOf(hostname(instance))
	if left := behaviour.Remaining(g.now(), before.at, registrationDelay); left > 0 {
		return left, nil
	}
	data, err := g.userData(ctx, instance)
	if err != nil {
		return 0, err
	}
	if before.disk != g.disk(instance) {
		if allowed, err := g.mayJoin(ctx, cluster.InstanceKey(instance), data); err != nil || !allowed {
			return behaviour.HeartbeatInterval, err
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.identify(node, instance, data)
	setGuestStatus(node, instance, g.kubelet)
	_, err = g.target.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return behaviour.PollInterval, nil // not in the cache yet
	}
	if err != nil {
		return 0, fmt.Errorf("register target Node %s: %w", name, err)
	}
	g.log.Info("joined", "instance", cluster.InstanceKey(instance), "node", name)
	return 0, nil // the event of the new Node triggers its first status and lease
}

// keepAlive renews the lease and reports the status of a guest's Node.
func (g *Guests) keepAlive(
	ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, node *corev1.Node,
) (time.Duration, error) {
	if g.isForeign(node, instance) {
		g.log.Warn("Node belongs to another guest", "node", node.Name, "instance", cluster.InstanceKey(instance))
		return behaviour.HeartbeatInterval, nil
	}
	sameDisk := node.Annotations[diskAnnotation] == g.disk(instance)
	host := node.Annotations[hostAnnotation]
	switch {
	case sameDisk && host == instance.Status.NodeName:
	case sameDisk && cluster.MigratedFrom(instance, host):
		return 0, g.follow(ctx, instance, node)
	default:
		return g.rejoin(ctx, instance, node)
	}
	desired := node.DeepCopy()
	setGuestStatus(desired, instance, g.kubelet)
	if err := kubelet.UpdateNodeStatus(ctx, g.target.Client, node, desired, g.now()); err != nil {
		return 0, err
	}
	return behaviour.HeartbeatInterval, kubelet.RenewLease(ctx, g.target.Client, node, g.now())
}

// rejoin takes over the Node that a guest with the same host name had before it booted on another
// node or from another disk. A new disk needs a bootstrap token again.
func (g *Guests) rejoin(
	ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, node *corev1.Node,
) (time.Duration, error) {
	data, err := g.userData(ctx, instance)
	if err != nil {
		return 0, err
	}
	if node.Annotations[diskAnnotation] != g.disk(instance) {
		if allowed, err := g.mayJoin(ctx, cluster.InstanceKey(instance), data); err != nil || !allowed {
			return behaviour.HeartbeatInterval, err
		}
	}
	desired := node.DeepCopy()
	g.identify(desired, instance, data)
	if _, err := g.target.Client.CoreV1().Nodes().Update(ctx, desired, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("register target Node %s again: %w", node.Name, err)
	}
	g.log.Info("joined again", "instance", cluster.InstanceKey(instance), "node", node.Name)
	return 0, nil
}

// follow records a guest's new provider node. The guest itself does not notice a live migration.
func (g *Guests) follow(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, node *corev1.Node) error {
	moved := node.DeepCopy()
	moved.Annotations[hostAnnotation] = instance.Status.NodeName
	if _, err := g.target.Client.CoreV1().Nodes().Update(ctx, moved, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("note the migration of target Node %s: %w", node.Name, err)
	}
	g.log.Info("migrated", "instance", cluster.InstanceKey(instance), "node", node.Name)
	return nil
}

// isForeign reports whether a Node belongs to another guest with the same host name.
func (g *Guests) isForeign(node *corev1.Node, instance *kubevirtv1.VirtualMachineInstance) bool {
	owner := node.Annotations[InstanceAnnotation]
	if owner == cluster.InstanceKey(instance) {
		return false
	}
	_, err := g.provider.Instance(owner)
	return err == nil
}

// disk identifies the boot disk of a guest: the first existing claim, or else an ephemeral disk
// with the instance's UID.
func (g *Guests) disk(instance *kubevirtv1.VirtualMachineInstance) string {
	for _, volume := range instance.Spec.Volumes {
		name := cluster.ClaimName(volume)
		if name == "" {
			continue
		}
		claim, err := g.provider.Claims.PersistentVolumeClaims(instance.Namespace).Get(name)
		if err == nil {
			return string(claim.UID)
		}
	}
	return string(instance.UID)
}

// leave reports the shutdown of a guest whose VirtualMachineInstance has ended or is gone, as
// kubelet does on a graceful shutdown. A guest on a dead node cannot report it.
func (g *Guests) leave(ctx context.Context, key string) error {
	node := g.nodeOf(key)
	if node == nil || !isReady(node) || !g.provider.NodeUp(node.Annotations[hostAnnotation]) {
		return nil
	}
	stopped := node.DeepCopy()
	condition := kubelet.NodeCondition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady")
	condition.Message = "node is shutting down"
	kubelet.SetNodeCondition(&stopped.Status, condition, g.now())
	if _, err := g.target.Client.CoreV1().Nodes().UpdateStatus(ctx, stopped, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report shutdown of target Node %s: %w", node.Name, err)
	}
	g.log.Info("shut down", "instance", key, "node", node.Name)
	return nil
}

// nodeOf returns the target Node that the guest of an instance registered, or nil.
func (g *Guests) nodeOf(key string) *corev1.Node {
	nodes, err := g.target.Nodes.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, node := range nodes {
		if node.Annotations[InstanceAnnotation] == key {
			return node
		}
	}
	return nil
}

// NoteRemoval records the deletion of a target Node.
func (g *Guests) NoteRemoval(node *corev1.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removed[node.Name] = removal{at: g.now(), disk: node.Annotations[diskAnnotation]}
}

// removalOf returns the last deletion of a target Node seen by this simulator.
func (g *Guests) removalOf(name string) removal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.removed[name]
}

// userData returns the user data that cloud-init finds, or nil if the instance has no such
// volume or its Secret is gone.
func (g *Guests) userData(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) ([]byte, error) {
	name := userDataSecret(instance)
	if name == "" {
		return nil, nil
	}
	secret, err := g.provider.Client.CoreV1().Secrets(instance.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("user data of %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	for _, key := range []string{"userdata", "userData"} {
		if data := secret.Data[key]; len(data) > 0 {
			return data, nil
		}
	}
	return nil, nil
}

// mayJoin reports whether the target cluster accepts one of the bootstrap tokens in the user data of
// an instance, or has accepted it from another instance.
//
// The second rule is not real. machine-controller-manager derives the ID of a token from three
// characters of the Machine's name (machinecontroller/userdata.go, getTokenIDAndSecretName), so two
// Machines can share a token, and deletes it when the first Node is ready. The other guest can then
// never join, and is replaced after the creation timeout, for which few tests could wait.
func (g *Guests) mayJoin(ctx context.Context, instance string, data []byte) (bool, error) {
	for _, token := range findTokens(g.tokens, data) {
		valid, err := g.isValid(ctx, token)
		if err != nil {
			return false, err
		}
		if valid || g.isShared(token, instance) {
			g.noteAcceptance(token, instance)
			return true, nil
		}
	}
	return false, nil
}

// isValid reports whether the target cluster accepts a bootstrap token.
func (g *Guests) isValid(ctx context.Context, token bootstrapToken) (bool, error) {
	secret, err := g.target.Client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, bootstrapTokenPrefix+token.id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read bootstrap token %s: %w", token.id, err)
	}
	return string(secret.Data[bootstrapTokenKey]) == token.secret, nil
}

// noteAcceptance records the first instance that joined with a token.
func (g *Guests) noteAcceptance(token bootstrapToken, instance string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.accepted[token]; !known {
		g.accepted[token] = instance
	}
}

// isShared reports whether another instance joined with a token.
func (g *Guests) isShared(token bootstrapToken, instance string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, known := g.accepted[token]
	return known && first != instance
}
