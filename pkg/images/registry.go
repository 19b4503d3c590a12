// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

const (
	// expiryPeriods is the number of orphan periods without a request after which a MachineClass is
	// assumed to be deleted: machine-controller-manager lists the machines of every MachineClass
	// once per period.
	expiryPeriods = 2
	// maxClasses bounds the registered MachineClasses, and the clusters. If an existing class is
	// evicted, its image may be deleted while no machine uses it; it is created again for the next
	// machine.
	maxClasses = 2000
)

// Class is a MachineClass as a request describes it.
type Class struct {
	// Cluster is the value of the tag v1alpha1.TagCluster.
	Cluster string
	// ShootUID is the value of the tag v1alpha1.TagShootUID; empty without it.
	ShootUID string
	// Name is the name of the MachineClass in the control cluster.
	Name types.NamespacedName
	// Deleted is set if the MachineClass has a deletionTimestamp.
	Deleted bool
	// Image is the name of its golden image; empty if it uses none, or cannot be decoded.
	Image string
}

// registry tracks the MachineClasses of requests, to determine which images are still referenced.
type registry struct {
	clock  clock.PassiveClock
	period time.Duration

	mu sync.Mutex
	// classes maps a classKey to its entry, and clusters a cluster to its listings. Entries without a
	// request expire.
	classes, clusters *cache.LRUExpireCache
	// swept holds the pairs of a namespace and a cluster that do not need a sweep yet.
	swept *cache.LRUExpireCache
}

// classKey identifies a MachineClass. Different control clusters may use the same name.
type classKey struct {
	cluster string
	name    types.NamespacedName
}

// entry is what the latest request said about a MachineClass.
type entry struct {
	image   string
	deleted bool
}

// listings are the times of the first and the last request in an uninterrupted sequence of requests
// that list the machines of a cluster.
type listings struct {
	since, last time.Time
}

func newRegistry(c clock.PassiveClock, period time.Duration) *registry {
	return &registry{
		clock:    c,
		period:   period,
		classes:  cache.NewLRUExpireCacheWithClock(maxClasses, c),
		clusters: cache.NewLRUExpireCacheWithClock(maxClasses, c),
		swept:    cache.NewLRUExpireCacheWithClock(maxClasses, c),
	}
}

// register records the MachineClass of a request.
func (r *registry) register(class Class) {
	key := classKey{cluster: class.Cluster, name: class.Name}

	if class.Image == "" {
		r.classes.Remove(key)
	} else {
		r.classes.Add(key, entry{image: class.Image, deleted: class.Deleted}, r.period*expiryPeriods)
	}
}

// registerListing records that the machines of a cluster were listed.
func (r *registry) registerListing(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	l := r.listings(cluster)
	l.last = r.clock.Now()

	if l.since.IsZero() {
		l.since = l.last
	}

	r.clusters.Add(cluster, l, r.period*expiryPeriods)
}

// listings returns the listings of a cluster; zero if they have expired.
func (r *registry) listings(cluster string) listings {
	found, _ := r.clusters.Get(cluster)
	l, _ := found.(listings)

	return l
}

// sweepDue reports whether no sweep was due in a namespace for one orphan period, and registers that
// it is due now.
func (r *registry) sweepDue(namespace, cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	key := namespace + " " + cluster
	if _, swept := r.swept.Get(key); swept {
		return false
	}

	r.swept.Add(key, nil, r.period)

	return true
}

// references are the images that the MachineClasses of a cluster refer to.
type references struct {
	// existing are the images of existing MachineClasses, deleted the images of MachineClasses that
	// are being deleted.
	existing, deleted map[string]bool
	// complete is set if existing contains every image, because each MachineClass was listed at least
	// once.
	complete bool
	// known is the latest creation time of an image whose MachineClass, if it still exists, must have
	// been listed since.
	known time.Time
}

// references returns the images of a cluster.
func (r *registry) references(cluster string) references {
	refs := references{existing: map[string]bool{}, deleted: map[string]bool{}}

	for _, key := range r.classes.Keys() {
		found, _ := r.classes.Get(key)
		class, known := found.(entry)

		switch {
		case !known || key.(classKey).cluster != cluster: //nolint:forcetypeassert // The only type of a key.
		case class.deleted:
			refs.deleted[class.image] = true
		default:
			refs.existing[class.image] = true
		}
	}

	l := r.listings(cluster)
	refs.complete = !l.since.IsZero() && l.last.Sub(l.since) >= r.period*expiryPeriods
	refs.known = r.clock.Now().Add(-r.period * expiryPeriods)

	return refs
}

// unneeded reports whether no MachineClass refers to an image. Before the references are complete,
// only the image of a MachineClass that is being deleted is known to be unneeded. The same holds for
// an image that was created after the last listing of each MachineClass, because Gardener's extension
// imports an image before it creates the MachineClass.
func (r references) unneeded(image string, created time.Time) bool {
	return !r.existing[image] && (r.deleted[image] || r.complete && created.Before(r.known))
}
