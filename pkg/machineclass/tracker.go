// Package machineclass decides by the lives of MachineClasses which golden images there are on provider clusters. An image is made
// as soon as a class refers to it, before the first Machine, and deleted when no class does. cmd/machine-controller runs the
// Tracker, which watches the classes of the control cluster; a process that cannot watch them uses Requests instead, to which a
// Reporter beside the machine controller tells what requests do not. pkg/kubevirt tells Tracker and Requests what
// machine-controller-manager's requests carry. The package must not know how an image is made, nor any client of a provider cluster:
// that is behind spi.GoldenImages.
package machineclass

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// workers is how many stores are looked after, or classes reported, at a time. A provider cluster that is slow or out of reach holds
	// one of them.
	workers = 10
	// workTime bounds each step of the work on one store, images that cannot be made must not keep others from being deleted, and a report.
	workTime = time.Minute
	// readTime bounds the reading of one Secret.
	readTime = 10 * time.Second
	// firstRetry and lastRetry are after how long is tried again what failed.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// lastLook is how long an image in use is left alone at the most, and firstRetry at the least: some clones take hours, and somebody
	// else's may never end.
	lastLook = 5 * time.Minute
)

// Options are what a Tracker works with. All are required.
type Options struct {
	ControlCluster

	// Images makes and deletes golden images.
	Images spi.GoldenImages
	// Allowed is what a ProviderSpec may hold.
	Allowed validation.Options
}

// Tracker knows all MachineClasses of the control cluster, and keeps the golden images on the provider clusters as they say. It
// begins to act when it knows that this process leads: with the first request of machine-controller-manager, which elects its
// leader. It acts without one if all classes are gone that it has known: there would be none any more.
type Tracker struct {
	*watcher[storeKey]

	options Options
	// inUse says when a store is looked at again in which an image is in use.
	inUse workqueue.TypedRateLimiter[storeKey]

	mu      sync.Mutex
	classes map[string]*class
	stores  map[storeKey]*store
	// waiting is who is told when the work on a store has ended that has not begun yet.
	waiting map[storeKey][]chan<- struct{}
}

var (
	_ kubevirt.Classes = (*Tracker)(nil)
	_ owner[storeKey]  = (*Tracker)(nil)
)

// NewTracker returns a Tracker that does nothing before Run.
func NewTracker(options Options) *Tracker {
	t := &Tracker{
		options: options,
		inUse:   workqueue.NewTypedItemExponentialFailureRateLimiter[storeKey](firstRetry, lastLook),
		classes: map[string]*class{},
		stores:  map[storeKey]*store{},
		waiting: map[storeKey][]chan<- struct{}{},
	}
	t.watcher = newWatcher(options.ControlCluster, t, "golden-images")

	return t
}
