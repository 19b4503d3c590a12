package machineclass

import (
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// maxClasses is how many classes are remembered, and of how many clusters.
	maxClasses = 2000
	// pause is how many orphan periods may lie between the requests of a machine controller that is there. It waits for one after each
	// pass, which takes a while itself, and may have a period of twice the one that it is said to have.
	pause = 3
	// silence is for how many orphan periods nobody asks for the machines of a class that is gone: a living one is asked for in each
	// pass, late in one and early in the next or the other way round, hence after a pause and a pass at most.
	silence = pause + 1
)

// book is what requests have told of classes. Its owner locks it.
type book struct {
	period   time.Duration
	classes  map[requestClass]*heard
	clusters map[string]*presence
}

// requestClass names a class: control clusters may give the same name to classes of different shoots.
type requestClass struct {
	cluster, namespace, name string
}

// heard is what was last heard of a class.
type heard struct {
	image   spi.Image
	deleted bool
	at      time.Time
}

// presence is when the first request for a cluster came to this process, since when they have been coming without a break, and when the
// last one came.
type presence struct {
	first, since, last time.Time
}

func newBook(period time.Duration) book {
	return book{period: period, classes: map[requestClass]*heard{}, clusters: map[string]*presence{}}
}

// heard notes what a request says of a class; its image is nil if it refers to none.
func (b *book) heard(name requestClass, image *spi.Image, deleted bool, now time.Time) {
	b.present(name.cluster, now)
	delete(b.classes, name)

	if image != nil {
		makeRoom(b.classes)
		b.classes[name] = &heard{image: *image, deleted: deleted, at: now}
	}
}

// present notes that a request for a cluster has come. After a break, in which the machine controller was down or asked another
// replica, all classes count as just heard of: that nothing was heard means nothing.
func (b *book) present(cluster string, now time.Time) {
	p := b.clusters[cluster]
	if p != nil && now.Sub(p.last) <= b.period*pause {
		p.last = now

		return
	}

	first := now
	if p != nil {
		first = p.first
	}

	delete(b.clusters, cluster)
	makeRoom(b.clusters)
	b.clusters[cluster] = &presence{first: first, since: now, last: now}

	for name, class := range b.classes {
		if name.cluster == cluster {
			class.at = now
		}
	}
}

// makeRoom makes room for one more. Which one is forgotten does not matter much: the image of a living class is made again for the
// next Machine, should it be deleted with that of another one.
func makeRoom[K comparable, V any](all map[K]V) {
	for key := range all {
		if len(all) < maxClasses {
			return
		}

		delete(all, key)
	}
}

// images returns the images of the living classes of a cluster, and of those that are not living any more; none of these as long as
// there may be living ones that nobody has asked for yet.
func (b *book) images(cluster string) (live []spi.Image, dead map[requestClass]spi.Image) {
	p := b.clusters[cluster]
	if p == nil || !b.enoughKnown(cluster, p) {
		return nil, nil
	}

	dead = map[requestClass]spi.Image{}

	for name, class := range b.classes {
		switch {
		case name.cluster != cluster:
		case b.gone(class, p):
			dead[name] = class.image
		default:
			live = append(live, class.image)
		}
	}

	return live, dead
}

// enoughKnown says whether all classes of a cluster were asked for, as they are in each period. A break makes that unknown, since there
// may be new ones; but not if all those are being deleted that were known before: that is how a hibernated shoot ends.
func (b *book) enoughKnown(cluster string, p *presence) bool {
	if p.last.Sub(p.since) >= b.period {
		return true
	}

	for name, class := range b.classes {
		if name.cluster == cluster && !class.deleted {
			return false
		}
	}

	return p.last.Sub(p.first) >= b.period
}

// gone says whether a class is being deleted, or was passed over while others of its cluster were asked for.
func (b *book) gone(class *heard, p *presence) bool {
	return class.deleted || p.last.Sub(class.at) > b.period*silence
}

// forget forgets classes, unless they live again.
func (b *book) forget(dead map[requestClass]spi.Image) {
	for name := range dead {
		class, p := b.classes[name], b.clusters[name.cluster]
		if class != nil && p != nil && b.gone(class, p) {
			delete(b.classes, name)
		}
	}
}
