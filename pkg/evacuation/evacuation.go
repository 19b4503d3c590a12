// Package evacuation lets the admin of a provider cluster drain its nodes without knowing of shoots: it has the machines that are
// to leave a node live-migrated, or replaced by machine-controller-manager, which drains the shoot's node first. cmd/machine-controller
// runs it beside the driver. It knows Machines and the contract in pkg/spi, and must not see a client of the provider cluster.
//
// It keeps nothing that a restart would lose: what is to be done, and what is under way, is read from both clusters each time.
package evacuation

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// EventRecorder records Events, as those of client-go do. It must not change the object.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Options are the controller's dependencies and limits. All are required.
type Options struct {
	// Evacuator is the provider cluster's side.
	Evacuator spi.Evacuator
	// Machines is the control cluster's, whose requests must be bounded in time.
	Machines machineclient.MachineV1alpha1Interface
	// Namespace is that of the Machines.
	Namespace string
	// Events takes what happens to machines, as Events on the Machines.
	Events EventRecorder
	// Clock is the time by which deadlines are judged.
	Clock clock.PassiveClock
	// Limits say how fast machines may leave.
	Limits Limits
	// Period is how often a look is taken at machines that are on their way.
	Period time.Duration
	// ClassMemory is how long a MachineClass counts that no request was made for. It exceeds the period of
	// machine-controller-manager's search for orphans, which asks for every class.
	ClassMemory time.Duration
}

// What has failed is tried again after these times: an admin waits, and the next machine may fare better.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Controller is safe for concurrent use.
type Controller struct {
	options Options
	queue   workqueue.TypedRateLimitingInterface[siteName]
	classes *classes
	metrics *metrics
	// sites are those that are watched. They belong to Run.
	sites map[siteName]*site
}

var (
	_ kubevirt.Observer    = (*Controller)(nil)
	_ prometheus.Collector = (*Controller)(nil)
)

// New returns a controller that does nothing before its first Seen.
func New(options Options) *Controller {
	return &Controller{
		options: options,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[siteName](minRetry, maxRetry)),
		classes: newClasses(options.Clock, options.ClassMemory),
		metrics: newMetrics(),
		sites:   map[siteName]*site{},
	}
}

// Seen implements kubevirt.Observer. It tells the controller what to watch, and that this process leads.
func (c *Controller) Seen(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	kubeconfig, id, err := kubevirt.Access(class, secret)
	if err != nil || !c.classes.note(class.Name, kubeconfig, id) {
		return // The request itself says what is wrong with the class, and what has been noted is watched.
	}

	place, err := c.options.Evacuator.Place(kubeconfig)
	if err != nil {
		return
	}

	now := siteName{place: place, identity: id}
	before := c.classes.locate(class.Name, now)

	c.queue.Add(now)
	c.queue.Add(before) // Perhaps nobody needs it any more.
}

// Run works until ctx is over. One worker decides: two could each give the last permitted machine away.
func (c *Controller) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()

	for c.next(ctx) {
	}
}

func (c *Controller) next(ctx context.Context) bool {
	name, ended := c.queue.Get()
	if ended {
		return false
	}

	defer c.queue.Done(name)

	again, err := c.look(ctx, name)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Machines that are to leave their provider nodes wait", "place", name.place)
		c.queue.AddRateLimited(name)

		return true
	}

	c.queue.Forget(name)

	if again > 0 {
		c.queue.AddAfter(name, again)
	}

	return true
}
