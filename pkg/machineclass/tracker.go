// Package machineclass decides by the lives of MachineClasses which golden images there are on provider clusters. An image is made
// as soon as a class refers to it, before the first Machine, and deleted when no class does. cmd/machine-controller runs the
// Tracker, which watches the classes of the control cluster; a process that cannot watch them uses Requests instead. pkg/kubevirt
// tells both what machine-controller-manager's requests carry. The package must not know how an image is made, nor any client of a
// provider cluster: that is behind spi.GoldenImages.
package machineclass

import (
	"context"
	"sync"
	"time"

	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	machinelisters "github.com/gardener/machine-controller-manager/pkg/client/listers/machine/v1alpha1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// workers is how many stores are looked after at a time. A provider cluster that is slow or out of reach holds one of them.
	workers = 10
	// workTime bounds each step of the work on one store: images that cannot be made must not keep others from being deleted.
	workTime = time.Minute
	// readTime bounds the reading of one Secret.
	readTime = 10 * time.Second
	// firstRetry and lastRetry are after how long is tried again what failed, and what images in use prevented.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// Options are what a Tracker works with. All are required.
type Options struct {
	// Machines and Secrets are clients of the control cluster. The rights of machine-controller-manager's sidecar suffice:
	// get, list and watch of MachineClasses and get of Secrets in Namespace.
	Machines mcmclient.Interface
	Secrets  corev1client.SecretsGetter
	// Namespace is the only one whose MachineClasses and Secrets count.
	Namespace string
	// Images makes and deletes golden images.
	Images spi.GoldenImages
	// Allowed is what a ProviderSpec may hold.
	Allowed validation.Options
}

// Tracker knows all MachineClasses of the control cluster, and keeps the golden images on the provider clusters as they say. It
// begins to act when it knows that this process leads: with the first request of machine-controller-manager, which elects its
// leader. It acts without one if all classes are gone that it has known: there would be none any more.
type Tracker struct {
	options Options
	lister  machinelisters.MachineClassLister

	// names are classes to look at in the control cluster, keys the stores of images to look after on provider clusters.
	names workqueue.TypedRateLimitingInterface[string]
	keys  workqueue.TypedRateLimitingInterface[storeKey]

	// acting is closed when the Tracker may act, stopping when it is to end, and ended when it has ended.
	acting, stopping, ended chan struct{}
	act, stop               sync.Once

	mu      sync.Mutex
	classes map[string]*class
	stores  map[storeKey]*store
	// waiting is who is told when the work on a store has ended that has not begun yet.
	waiting map[storeKey][]chan<- struct{}
}

var _ kubevirt.Classes = (*Tracker)(nil)

// NewTracker returns a Tracker that does nothing before Run.
func NewTracker(options Options) *Tracker {
	return &Tracker{
		options:  options,
		names:    newQueue[string]("machineclasses"),
		keys:     newQueue[storeKey]("golden-images"),
		acting:   make(chan struct{}),
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
		classes:  map[string]*class{},
		stores:   map[storeKey]*store{},
		waiting:  map[storeKey][]chan<- struct{}{},
	}
}

func newQueue[T comparable](name string) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[T]{Name: name},
	)
}

// Run watches and acts until Stop is called or ctx is over. It is called once.
//
// Every class is known before the first image is deleted: an empty cache must not look like a cluster without classes.
func (t *Tracker) Run(ctx context.Context) {
	defer close(t.ended)

	if !t.watch(ctx) {
		return
	}

	var working sync.WaitGroup
	defer working.Wait()

	working.Go(func() {
		drain(ctx, t.names, t.look)
		t.finish()
	})

	select {
	case <-t.acting:
	case <-t.stopping:
		return
	case <-ctx.Done():
		return
	}

	for range workers {
		working.Go(func() { drain(ctx, t.keys, t.tend) })
	}
}

// drain works on what is in a queue until it is shut down and empty.
func drain[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], work func(context.Context, T)) {
	undo := context.AfterFunc(ctx, queue.ShutDown)
	defer undo()

	for {
		item, over := queue.Get()
		if over {
			return
		}

		work(ctx, item)
		queue.Done(item)
	}
}

// Stop ends the watch, and waits until the work that has begun has ended or ctx is over.
func (t *Tracker) Stop(ctx context.Context) {
	t.stop.Do(func() {
		close(t.stopping)
		t.names.ShutDown()
	})

	select {
	case <-t.ended:
	case <-ctx.Done():
	}
}

// finish lets the workers end with what is left to do. What no class refers to gets a last chance, if it was still in use when it was
// last looked at: the next process may not know where it is.
func (t *Tracker) finish() {
	for _, key := range t.unreferenced() {
		t.keys.Add(key)
	}

	t.keys.ShutDown()
}

// lead lets the Tracker act.
func (t *Tracker) lead() {
	t.act.Do(func() { close(t.acting) })
}
