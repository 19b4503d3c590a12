package machineclass

import (
	"context"
	"errors"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// task is what is to be done in a store.
type task struct {
	kubeconfig []byte
	// missing are the images that are to be made.
	missing []spi.Image
	// live are the images of all living classes of the cluster, wherever they are.
	live []spi.Image
	// vanished are the images of classes that are gone without having been deleted.
	vanished []spi.Image
	// blocked says that there is a living class whose image is unknown, so that nothing can be known to be superfluous.
	blocked bool
}

// tend makes the images that are missing in a store, and deletes those that no class refers to.
func (t *Tracker) tend(ctx context.Context, key storeKey) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("cluster", key.cluster))

	waiting := t.begin(key)
	defer release(waiting)

	todo := t.task(key)
	if todo == nil {
		t.forget(key)

		return
	}

	made := t.make(ctx, key, todo)
	clean, swept := t.sweep(ctx, key, todo)

	switch err := utilerrors.NewAggregate([]error{made, swept}); {
	case err != nil:
		t.failed(ctx, key, err)
	case todo.blocked: // The class that blocks is looked at when it changes.
		t.forget(key)
	case !clean:
		t.keys.Forget(key)
		t.keys.AddAfter(key, t.inUse.When(key))
	default:
		t.forget(key)
		t.close(key)
	}
}

// forget lets the next failure, and the next image in use, be followed by a short wait.
func (t *Tracker) forget(key storeKey) {
	t.keys.Forget(key)
	t.inUse.Forget(key)
}

// task returns what is to be done now; nil if there is no such store any more.
func (t *Tracker) task(key storeKey) *task {
	t.mu.Lock()
	defer t.mu.Unlock()

	s := t.stores[key]
	if s == nil {
		return nil
	}

	todo := &task{kubeconfig: s.kubeconfig, vanished: slices.Clone(s.vanished)}

	for _, c := range t.classes {
		if c.deleted || (c.cluster != key.cluster && c.cluster != "") {
			continue
		}

		if c.image == nil || c.cluster == "" {
			todo.blocked = true

			continue
		}

		todo.live = append(todo.live, *c.image)

		if s.incomplete && c.in(key) {
			todo.missing = append(todo.missing, *c.image)
		}
	}

	s.incomplete, s.outdated = false, false

	return todo
}

func (t *Tracker) make(ctx context.Context, key storeKey, todo *task) error {
	if len(todo.missing) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()

	err := t.options.Images.EnsureImages(ctx, &spi.EnsureImagesInput{Kubeconfig: todo.kubeconfig, Images: todo.missing})
	if err != nil {
		t.incomplete(key)

		return err
	}

	klog.FromContext(ctx).V(2).Info("The golden images of all MachineClasses are there, or on their way", "classes", len(todo.missing))

	return nil
}

func (t *Tracker) incomplete(key storeKey) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if s := t.stores[key]; s != nil {
		s.incomplete = true
	}
}

// sweep returns whether nothing superfluous is left.
func (t *Tracker) sweep(ctx context.Context, key storeKey, todo *task) (clean bool, err error) {
	if todo.blocked {
		klog.FromContext(ctx).Info("No golden images are deleted, since a MachineClass of the cluster cannot be used: correct or delete it")

		return false, nil
	}

	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()

	result, err := t.options.Images.SweepImages(ctx, &spi.SweepImagesInput{
		Kubeconfig: todo.kubeconfig, Cluster: key.cluster, Live: todo.live, Vanished: todo.vanished,
	})
	if err != nil {
		return false, err
	}

	logSwept(ctx, result)

	return len(result.InUse) == 0, nil
}

// logSwept says what is not deleted. What is, says who deletes it.
func logSwept(ctx context.Context, result *spi.SweepImagesResult) {
	if len(result.InUse) > 0 {
		klog.FromContext(ctx).V(2).Info("Golden images that no MachineClass refers to are still in use", "images", result.InUse)
	}
}

// failed has the work done again. Perhaps the credentials are old: their classes are looked at again too.
func (t *Tracker) failed(ctx context.Context, key storeKey, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if errors.Is(err, spi.ErrUnauthenticated) && !t.referred(key) && t.others(key) {
		klog.FromContext(ctx).V(2).Info("The credentials of deleted MachineClasses are refused; the images are looked after with newer ones", "err", err)
		t.forget(key)
		delete(t.stores, key)

		return
	}

	klog.FromContext(ctx).Info("Cannot look after golden images now; trying again", "err", err)

	for name, c := range t.classes {
		if c.in(key) {
			t.names.Add(name)
		}
	}

	t.keys.AddRateLimited(key)
}

// others says whether the cluster has another store.
func (t *Tracker) others(key storeKey) bool {
	for other := range t.stores {
		if other != key && other.cluster == key.cluster && t.referred(other) {
			return true
		}
	}

	return false
}

// close forgets what is not left in a store, and the store and its credentials if nothing is, unless a class has gone while that was
// found out.
func (t *Tracker) close(key storeKey) {
	t.mu.Lock()
	defer t.mu.Unlock()

	s := t.stores[key]
	if s == nil || s.outdated {
		return
	}

	s.vanished = nil

	if !t.referred(key) {
		delete(t.stores, key)
	}
}

// begin returns who waits for the work that begins now.
func (t *Tracker) begin(key storeKey) []chan<- struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()

	waiting := t.waiting[key]
	delete(t.waiting, key)

	return waiting
}

func release(waiting []chan<- struct{}) {
	for _, done := range waiting {
		close(done)
	}
}
