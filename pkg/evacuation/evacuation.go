// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package evacuation lets the admin of a provider cluster drain its nodes without knowing about
// shoots: machines that must leave a node are live-migrated, or replaced by
// machine-controller-manager, which drains the shoot's node first. cmd/machine-controller runs it
// alongside the driver. The package depends on Machines and on the contract in pkg/spi, and must
// not import a client of the provider cluster.
//
// Pending and ongoing evacuations are read from both clusters each time, so that a restart loses no
// evacuation. It loses only times that the clusters do not record; see evacuationRecord.
package evacuation

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the controller's dependencies and limits. All are required.
type Options struct {
	// Evacuator accesses the provider cluster.
	Evacuator spi.Evacuator
	// Machines is a client for the control cluster. Its requests must have a timeout.
	Machines machineclient.MachineV1alpha1Interface
	// Namespace is the namespace of the Machines.
	Namespace string
	// Events records Events on the Machines. It must not change the Machines.
	Events record.EventRecorder
	// Clock is the clock for deadlines.
	Clock clock.PassiveClock
	// Limits bound the speed of evacuations.
	Limits Limits
	// Period is the interval at which ongoing evacuations are checked.
	Period time.Duration
	// ClassRetention is how long a MachineClass is remembered after its last
	// request. It must exceed the period of machine-controller-manager's orphan
	// collection, which sends a request for every class.
	ClassRetention time.Duration
}

// The bounds of the retry backoff. They are short, because an admin waits for the drain and the next
// machine may succeed.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Controller evacuates machines from provider nodes. It is safe for concurrent use.
type Controller struct {
	options Options
	queue   workqueue.TypedRateLimitingInterface[targetKey]
	classes *classes
	metrics *metrics
	// targets are the active watches. Only Run uses them.
	targets map[targetKey]*watchTarget
}

var _ prometheus.Collector = (*Controller)(nil)

// New returns a controller that does nothing before its first Observe.
func New(options Options) *Controller {
	return &Controller{
		options: options,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[targetKey](minRetry, maxRetry)),
		classes: newClasses(options.Clock, options.ClassRetention),
		metrics: newMetrics(),
		targets: map[targetKey]*watchTarget{},
	}
}

// Observe implements the Observer of pkg/kubevirt. It notifies the controller of a target to watch.
// A request also shows that this process is the leader.
func (c *Controller) Observe(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	kubeconfig, id, err := machineclass.Access(class, secret)
	if err != nil || !c.classes.update(class.Name, kubeconfig, id) {
		return // The request reports an invalid class, and an unchanged one is watched already.
	}

	serverAndNamespace, err := c.options.Evacuator.ServerAndNamespace(kubeconfig)
	if err != nil {
		return
	}

	target := targetKey{serverAndNamespace: serverAndNamespace, identity: id}
	previous := c.classes.setTarget(class.Name, target)

	c.queue.Add(target)
	c.queue.Add(previous) // No class may refer to it anymore.
}

// Run reconciles watch targets until ctx is done. It has only one worker: two could each evacuate
// the last machine that the limits permit.
func (c *Controller) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()

	for c.processNext(ctx) {
	}
}

func (c *Controller) processNext(ctx context.Context) bool {
	key, shutDown := c.queue.Get()
	if shutDown {
		return false
	}

	defer c.queue.Done(key)

	requeueAfter, err := c.reconcile(ctx, key)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to evacuate machines from provider nodes; retrying", "target", key.serverAndNamespace)
		c.queue.AddRateLimited(key)

		return true
	}

	c.queue.Forget(key)

	if requeueAfter > 0 {
		c.queue.AddAfter(key, requeueAfter)
	}

	return true
}
