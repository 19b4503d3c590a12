package machineclass

import (
	"bytes"
	"context"
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	machinelisters "github.com/gardener/machine-controller-manager/pkg/client/listers/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
)

// ControlCluster is where the MachineClasses are. All is required.
type ControlCluster struct {
	// Machines and Secrets are clients of the control cluster. The rights of machine-controller-manager's sidecar suffice:
	// get, list and watch of MachineClasses and get of Secrets in Namespace.
	Machines mcmclient.Interface
	Secrets  corev1client.SecretsGetter
	// Namespace is the only one whose MachineClasses and Secrets count.
	Namespace string
}

// watcher knows which MachineClasses there are in the control cluster, and has its owner do what follows from that.
type watcher[K comparable] struct {
	control ControlCluster
	owner   owner[K]
	lister  machinelisters.MachineClassLister

	// names are classes to look at in the control cluster, keys what there is to do outside it.
	names workqueue.TypedRateLimitingInterface[string]
	keys  workqueue.TypedRateLimitingInterface[K]

	// acting is closed when the owner may act, stopping when it is to end, and ended when it has ended.
	acting, stopping, ended chan struct{}
	act, stop               sync.Once
}

// owner decides what follows from the lives of classes. Its methods may be called at the same time.
type owner[K comparable] interface {
	// set takes the state of a class of this provider, and the kubeconfig of its Secrets unless that cannot be read.
	set(ctx context.Context, class *v1alpha1.MachineClass, kubeconfig []byte)
	// remove takes note of a class that is gone, or is of another provider.
	remove(ctx context.Context, name string)
	// kubeconfigOf returns what is known of a class; false if the class is not known.
	kubeconfigOf(name string) ([]byte, bool)
	// needsKubeconfig says whether a class without a kubeconfig is at fault.
	needsKubeconfig() bool
	// tend does what there is to do about a key. It is called with keys that were added, once the owner may act.
	tend(ctx context.Context, key K)
	// unfinished returns what gets a last chance at the end, whenever it would be tried again.
	unfinished() []K
}

func newWatcher[K comparable](control ControlCluster, of owner[K], queue string) *watcher[K] {
	return &watcher[K]{
		control:  control,
		owner:    of,
		names:    newQueue[string]("machineclasses"),
		keys:     newQueue[K](queue),
		acting:   make(chan struct{}),
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
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
// Every class is known before the first key is worked on: an empty cache must not look like a cluster without classes.
func (w *watcher[K]) Run(ctx context.Context) {
	defer close(w.ended)

	if !w.watch(ctx) {
		return
	}

	var working sync.WaitGroup
	defer working.Wait()

	working.Go(func() {
		drain(ctx, w.names, w.look)
		w.finish()
	})

	select {
	case <-w.acting:
	case <-w.stopping:
		return
	case <-ctx.Done():
		return
	}

	for range workers {
		working.Go(func() { drain(ctx, w.keys, w.owner.tend) })
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
func (w *watcher[K]) Stop(ctx context.Context) {
	w.stop.Do(func() {
		close(w.stopping)
		w.names.ShutDown()
	})

	select {
	case <-w.ended:
	case <-ctx.Done():
	}
}

// finish lets the workers end with what is left to do: the next process may know nothing of it.
func (w *watcher[K]) finish() {
	for _, key := range w.owner.unfinished() {
		w.keys.Add(key)
	}

	w.keys.ShutDown()
}

// lead lets the owner act.
func (w *watcher[K]) lead() {
	w.act.Do(func() { close(w.acting) })
}

// Seen implements kubevirt.Observer. What classes there are the watch knows better than a request, which comes from another cache.
// It tells that this process leads, and that credentials may be new: there is no watch on Secrets.
func (w *watcher[K]) Seen(object *v1alpha1.MachineClass, secret *corev1.Secret) {
	w.lead()

	if kubeconfig, known := w.owner.kubeconfigOf(object.Name); known && !bytes.Equal(kubeconfig, kubeconfigIn(secret)) {
		w.names.Add(object.Name)
	}
}
