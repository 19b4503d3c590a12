package machineclass

import (
	"bytes"
	"context"
	"crypto/sha256"
	"iter"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// class is what is known of a MachineClass of this provider.
type class struct {
	uid types.UID
	// cluster is the cluster tag; empty if it was never readable.
	cluster string
	// deleted says that the class has a deletionTimestamp: it refers to no image any more.
	deleted bool
	// image is what its machines are cloned from; nil if the class cannot be decoded.
	image *spi.Image
	// kubeconfig is that of its Secrets; empty as long as it could not be read.
	kubeconfig []byte

	providerSpec []byte
}

// storeKey names a store: the golden images of one shoot on one provider cluster.
type storeKey struct {
	cluster     string
	credentials [sha256.Size]byte
}

// store is where images are. It outlives its classes until the last image is deleted, and so do their credentials.
type store struct {
	kubeconfig []byte
	// incomplete says that images of living classes may be missing.
	incomplete bool
	// outdated says that the classes have changed since the last work began.
	outdated bool
	// vanished are the images of classes that are gone without having been deleted.
	vanished []spi.Image
}

func keyOf(cluster string, kubeconfig []byte) storeKey {
	return storeKey{cluster: cluster, credentials: sha256.Sum256(kubeconfig)}
}

// key returns the key of the class's store, and whether it is known.
func (c *class) key() (storeKey, bool) {
	return keyOf(c.cluster, c.kubeconfig), c.cluster != "" && len(c.kubeconfig) > 0
}

// in says whether the class's images are in a store.
func (c *class) in(key storeKey) bool {
	own, known := c.key()

	return known && own == key
}

// same says whether nothing has changed that golden images depend on. A class that was created anew is another one.
func (c *class) same(other *class) bool {
	return c.uid == other.uid && c.cluster == other.cluster && c.deleted == other.deleted &&
		bytes.Equal(c.kubeconfig, other.kubeconfig) && bytes.Equal(c.providerSpec, other.providerSpec) && (c.image == nil) == (other.image == nil) &&
		(c.image == nil || c.image.Architecture == other.image.Architecture)
}

// set takes the state of a class, and the kubeconfig of its Secrets unless that cannot be read.
func (t *Tracker) set(ctx context.Context, object *v1alpha1.MachineClass, kubeconfig []byte) {
	image, err := kubevirt.DecodeImage(object, t.options.Allowed)
	cluster, _ := kubevirt.ClusterOf(object)
	now := &class{
		uid: object.UID, cluster: cluster, deleted: object.DeletionTimestamp != nil,
		image: image, kubeconfig: kubeconfig, providerSpec: object.ProviderSpec.Raw,
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	old := t.classes[object.Name]
	now.remember(old)

	if old != nil && old.same(now) {
		return
	}

	if err != nil && !now.deleted {
		klog.FromContext(ctx).Info("MachineClass cannot be used; until it is corrected or deleted, no golden image that may be its own is deleted",
			"machineClass", klog.KObj(object), "cluster", now.cluster, "err", err)
	}

	t.classes[object.Name] = now
	t.open(now)

	if old != nil {
		t.leave(old, now)
	}

	t.enqueue(now.cluster)
}

// remember adds what a class does not say any more: one whose Secret is gone, or whose tags were broken, still has an image, and
// one that is being deleted stays that, whatever the watch, which may lag behind a request, says. A class that was created anew has
// nothing of its predecessor.
func (c *class) remember(old *class) {
	if old == nil || old.uid != c.uid {
		return
	}

	c.deleted = c.deleted || old.deleted

	if c.cluster == "" {
		c.cluster = old.cluster
	}

	if len(c.kubeconfig) == 0 {
		c.kubeconfig = old.kubeconfig
	}
}

// open makes sure that there is a store for the class's image.
func (t *Tracker) open(c *class) {
	key, known := c.key()
	if !known {
		return
	}

	if t.stores[key] == nil {
		t.stores[key] = &store{kubeconfig: c.kubeconfig}
	}

	if !c.deleted {
		t.stores[key].incomplete = true
	}
}

// leave closes the store that a class has moved from with new credentials, if it was the last one there: the images are now
// looked after with the new ones. The credentials of a class that was created anew may lead elsewhere: what its predecessor left is
// swept where it is.
func (t *Tracker) leave(old, now *class) {
	if old.cluster == "" {
		t.enqueue("") // It blocked them all.

		return
	}

	key, known := old.key()
	if !known || t.referred(key) {
		return
	}

	if old.uid != now.uid || old.cluster != now.cluster {
		t.enqueue(old.cluster)

		return
	}

	delete(t.stores, key)
}

// remove forgets a class that is gone. Its store is swept.
func (t *Tracker) remove(ctx context.Context, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	old := t.classes[name]
	if old == nil {
		return
	}

	klog.FromContext(ctx).V(2).Info("MachineClass is gone", "machineClass", name, "cluster", old.cluster)
	delete(t.classes, name)

	if !old.deleted && old.image != nil {
		t.vanish(old)
	}

	t.enqueue(old.cluster)

	if len(t.classes) == 0 {
		t.lead()
	}
}

// vanish notes that nobody deleted a class that is gone: it had no finalizer any more, since there is no machine of it, or since its
// machines have gone from this control cluster while they run on.
func (t *Tracker) vanish(c *class) {
	for _, s := range t.storesOf(c.cluster) {
		s.vanished = append(s.vanished, *c.image)
	}
}

// enqueue has all stores of a cluster looked after: each depends on all classes of the cluster.
func (t *Tracker) enqueue(cluster string) {
	for key, s := range t.storesOf(cluster) {
		s.outdated = true
		t.keys.Add(key)
	}
}

// storesOf returns the stores of a cluster. A class without one may be of any.
func (t *Tracker) storesOf(cluster string) iter.Seq2[storeKey, *store] {
	return func(yield func(storeKey, *store) bool) {
		for key, s := range t.stores {
			if (cluster == "" || key.cluster == cluster) && !yield(key, s) {
				return
			}
		}
	}
}

// referred says whether a class, living or not, has its image in a store.
func (t *Tracker) referred(key storeKey) bool {
	for _, c := range t.classes {
		if c.in(key) {
			return true
		}
	}

	return false
}

// unfinished returns the stores whose classes are all gone: what is left in them may not be in use any more.
func (t *Tracker) unfinished() []storeKey {
	t.mu.Lock()
	defer t.mu.Unlock()

	var keys []storeKey

	for key := range t.stores {
		if !t.referred(key) {
			keys = append(keys, key)
		}
	}

	return keys
}

func (t *Tracker) kubeconfigOf(name string) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if c := t.classes[name]; c != nil {
		return c.kubeconfig, true
	}

	return nil, false
}

// needsKubeconfig: without one no image can be made.
func (t *Tracker) needsKubeconfig() bool { return true }
