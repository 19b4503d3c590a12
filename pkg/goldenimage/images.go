package goldenimage

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ref says which image is meant.
type ref struct {
	server, namespace, name string
}

func (p Place) ref(name string) ref {
	return ref{server: p.Clients.Server, namespace: p.Clients.Namespace, name: name}
}

// state is what was seen of an image last. It is empty for one that is not known to be there.
type state string

const (
	importing state = "importing"
	ready     state = "ready"
	failed    state = "failed"
)

// images remember which images are there, so that a machine costs no request for its image, and who uses them now. Losing that, on a
// restart, costs a request per image.
type images struct {
	mu  sync.Mutex
	all map[ref]*image
}

// image is what is remembered of one. Whoever makes a machine from it holds it shared, whoever deletes it alone.
type image struct {
	held sync.RWMutex
	// users are those who hold it, or wait to.
	users int
	state state
	// uid is that of the DataVolume of which the state is known: one that this process created, or has compared with the image.
	uid types.UID
}

func newImages() *images {
	return &images{all: map[ref]*image{}}
}

// share holds an image until release is called: nobody in this process deletes it meanwhile.
func (i *images) share(r ref) (release func()) {
	held := i.enter(r)
	held.held.RLock()

	return func() {
		held.held.RUnlock()
		i.leave(r)
	}
}

// claim holds an image alone, and returns false if somebody uses it: a deletion does not wait for machines that are being made.
func (i *images) claim(r ref) (release func(), ok bool) {
	held := i.enter(r)
	if !held.held.TryLock() {
		i.leave(r)

		return nil, false
	}

	return func() {
		held.held.Unlock()
		i.leave(r)
	}, true
}

func (i *images) enter(r ref) *image {
	i.mu.Lock()
	defer i.mu.Unlock()

	if i.all[r] == nil {
		i.all[r] = &image{}
	}

	i.all[r].users++

	return i.all[r]
}

// leave drops an image that is neither used nor known to be there.
func (i *images) leave(r ref) {
	i.mu.Lock()
	defer i.mu.Unlock()

	i.all[r].users--
	i.drop(r)
}

func (i *images) drop(r ref) {
	if found := i.all[r]; found.users == 0 && found.state == "" {
		delete(i.all, r)
	}
}

func (i *images) state(r ref) state {
	i.mu.Lock()
	defer i.mu.Unlock()

	if found := i.all[r]; found != nil {
		return found.state
	}

	return ""
}

// is says whether what is known of an image is known of this DataVolume.
func (i *images) is(r ref, uid types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	found := i.all[r]

	return found != nil && found.uid == uid
}

// set remembers what was seen of a DataVolume, and returns what was seen before.
func (i *images) set(r ref, now state, uid types.UID) (before state) {
	i.mu.Lock()
	defer i.mu.Unlock()

	if i.all[r] == nil {
		i.all[r] = &image{}
	}

	before, i.all[r].state, i.all[r].uid = i.all[r].state, now, uid
	i.drop(r)

	return before
}

// count returns how many images there are, by their state.
func (i *images) count() map[state]int {
	i.mu.Lock()
	defer i.mu.Unlock()

	found := map[state]int{importing: 0, ready: 0, failed: 0}

	for _, one := range i.all {
		if one.state != "" {
			found[one.state]++
		}
	}

	return found
}
