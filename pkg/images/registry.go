package images

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// silence is the number of orphan periods after which a MachineClass that no request has named does
	// not exist any more: machine-controller-manager lists the machines of every MachineClass once per
	// period.
	silence = 2
	// maxClasses bounds the registered MachineClasses, and the clusters. If a living class is evicted,
	// its image may be deleted while no machine uses it; the next machine creates it again.
	maxClasses = 2000
)

// Class is a MachineClass as a request describes it.
type Class struct {
	// Cluster is the value of the tag v1alpha1.TagCluster.
	Cluster string
	// Name is the name of the MachineClass in the control cluster.
	Name types.NamespacedName
	// Deleted reports that the MachineClass has a deletionTimestamp.
	Deleted bool
	// Image is the name of its golden image; empty if it uses none, or cannot be decoded.
	Image string
}

// registry remembers the MachineClasses of requests, to tell which images are still referred to.
type registry struct {
	clock  clock.PassiveClock
	period time.Duration

	mu       sync.Mutex
	classes  map[classKey]entry
	clusters map[string]listings
	// swept are the times of the last sweeps, by namespace of a provider cluster and cluster.
	swept map[string]time.Time
}

// classKey identifies a MachineClass. Different control clusters may use the same name.
type classKey struct {
	cluster string
	name    types.NamespacedName
}

// entry is the last request for a MachineClass.
type entry struct {
	image   string
	deleted bool
	heard   time.Time
}

// listings are the requests for the machines of a cluster: since when they have come without a gap,
// and when the last one came.
type listings struct {
	since, last time.Time
}

func newRegistry(c clock.PassiveClock, period time.Duration) *registry {
	return &registry{clock: c, period: period, classes: map[classKey]entry{}, clusters: map[string]listings{}, swept: map[string]time.Time{}}
}

// heard registers the MachineClass of a request.
func (r *registry) heard(class Class) {
	r.mu.Lock()
	defer r.mu.Unlock()

	key := classKey{cluster: class.Cluster, name: class.Name}
	delete(r.classes, key)

	if class.Image != "" {
		makeRoom(r.classes)
		r.classes[key] = entry{image: class.Image, deleted: class.Deleted, heard: r.clock.Now()}
	}
}

// listed registers that the machines of a cluster were listed.
func (r *registry) listed(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	now := r.clock.Now()

	l, known := r.clusters[cluster]
	if !known || now.Sub(l.last) > r.period*silence {
		delete(r.clusters, cluster)
		makeRoom(r.clusters)

		l.since = now
	}

	l.last = now
	r.clusters[cluster] = l
}

// sweepDue reports whether no sweep was due in a namespace for one orphan period, and registers that
// it is due now.
func (r *registry) sweepDue(namespace, cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	key, now := namespace+" "+cluster, r.clock.Now()
	if last, known := r.swept[key]; known && now.Sub(last) < r.period {
		return false
	}

	delete(r.swept, key)
	makeRoom(r.swept)

	r.swept[key] = now

	return true
}

// makeRoom evicts arbitrary entries until there is room for one more.
func makeRoom[K comparable, V any](all map[K]V) {
	for key := range all {
		if len(all) < maxClasses {
			return
		}

		delete(all, key)
	}
}

// references are the images that the MachineClasses of a cluster refer to.
type references struct {
	// living are the images of MachineClasses that exist. deleted are those of MachineClasses that are
	// being deleted.
	living, deleted map[string]bool
	// complete reports that living has every image: each MachineClass was listed at least once.
	complete bool
}

// references returns the images of a cluster.
func (r *registry) references(cluster string) references {
	r.mu.Lock()
	defer r.mu.Unlock()

	now, refs := r.clock.Now(), references{living: map[string]bool{}, deleted: map[string]bool{}}

	for key, class := range r.classes {
		switch {
		case now.Sub(class.heard) > r.period*silence:
			delete(r.classes, key)
		case key.cluster != cluster:
		case class.deleted:
			refs.deleted[class.image] = true
		default:
			refs.living[class.image] = true
		}
	}

	l, known := r.clusters[cluster]
	refs.complete = known && l.last.Sub(l.since) >= r.period*silence

	return refs
}

// unneeded reports whether no MachineClass refers to an image. Before the references are complete,
// only the image of a MachineClass that is being deleted is known to be unneeded.
func (r references) unneeded(image string) bool {
	return !r.living[image] && (r.complete || r.deleted[image])
}
