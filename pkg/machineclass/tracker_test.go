package machineclass_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestImageBeforeTheFirstMachine has the first request be for another class than the one whose image is made.
func TestImageBeforeTheFirstMachine(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret := w.secret("s", "k")
		first, second := w.class("first", "old", "s"), w.class("second", "new", "s")
		w.create(first)
		w.run()
		w.create(second)
		pass(time.Hour)
		require.Empty(t, w.images.called(), "nobody knows whether this process leads")

		w.tracker.Seen(first, secret)
		synctest.Wait()
		w.requireImages("the process leads", "k c old", "k c new")

		third := w.class("third", "newer", "s")
		third.NodeTemplate = &v1alpha1.NodeTemplate{Architecture: ptr.To("arm64")}
		w.create(third)
		w.requireImages("a class appears", "k c old", "k c new", "k c newer arm64")
		w.images.called()

		third.Finalizers = []string{"machine.sapcloud.io/machine-controller-manager"}
		w.update(third)
		require.Empty(t, w.images.called(), "what golden images do not depend on does not matter")

		third.ProviderSpec.Raw = specOf("c", "newest")
		w.update(third)
		w.requireImages("a class is changed", "k c old", "k c new", "k c newest arm64")
	})
}

// TestImageLivesByReference has two classes share an image.
func TestImageLivesByReference(t *testing.T) {
	t.Parallel()
	inWorld(t, func(_ *testing.T, w *world) {
		w.images.there["k c left-over"] = true
		w.images.there["k other x"] = true

		secret := w.secret("s", "k")
		one, two, three := w.class("one", "a", "s"), w.class("two", "a", "s"), w.class("three", "b", "s")
		w.create(one, two, three)
		w.run()
		w.tracker.Seen(one, secret)
		synctest.Wait()
		w.requireImages("the sweep at the start takes what nobody refers to, of this shoot", "k c a", "k c b", "k other x")

		w.remove(one)
		w.requireImages("two refers to it", "k c a", "k c b", "k other x")

		w.terminate(two)
		w.requireImages("a class that is being deleted does not count", "k c b", "k other x")

		w.remove(two)
		w.removeSecret()
		w.remove(three)
		w.requireImages("the credentials are remembered", "k other x")
	})
}

// TestImageInUse sweeps again until the last clone has ended.
func TestImageInUse(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret, class := w.secret("s", "k"), w.class("one", "a", "s")
		w.create(class)
		w.run()
		w.tracker.Seen(class, secret)
		synctest.Wait()

		w.images.set(func() { w.images.inUse["k c a"] = true })
		w.removeSecret()
		w.remove(class)
		w.images.called()
		pass(10 * time.Second)
		w.requireImages("a machine is being cloned from it", "k c a")
		require.Equal(t, []string{"sweep k", "sweep k", "sweep k"}, w.images.called(), "the clone may end at any time")

		pass(24 * time.Hour)
		w.requireImages("the clone takes long", "k c a")

		looks := w.images.called()
		require.NotContains(t, looks, "ensure k", "nothing refers to it")
		require.Less(t, len(looks), 300, "it is looked at every five minutes")

		w.images.set(func() { delete(w.images.inUse, "k c a") })
		pass(5 * time.Minute)
		w.requireImages("the clone has ended")
		w.images.called()

		pass(time.Hour)
		require.Empty(t, w.images.called(), "nothing is left to do")
	})
}

// TestClassesGoOneByOne has the last class go while it is found out what the first one has left.
func TestClassesGoOneByOne(t *testing.T) {
	t.Parallel()
	inWorld(t, func(_ *testing.T, w *world) {
		secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "a", "s")
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, secret)
		synctest.Wait()

		hold := make(chan struct{})
		w.images.set(func() { w.images.hold["k"] = hold })
		w.remove(one)
		w.remove(two)
		w.requireImages("the first sweep knows of two", "k c a")

		w.images.set(func() { delete(w.images.hold, "k") })
		close(hold)
		synctest.Wait()
		w.requireImages("the second one does not")
	})
}

// TestUnusableClassKeepsImages has a class be broken whose image nobody can tell then.
func TestUnusableClassKeepsImages(t *testing.T) {
	t.Parallel()

	for name, broken := range map[string]string{
		"Field": `{"rootVolumes":{},"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`,
		"Tags":  `{"region":"r"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(_ *testing.T, w *world) {
				secret := w.secret("s", "k")
				one, two := w.class("one", "a", "s"), w.class("two", "b", "s")
				w.create(one, two)
				w.run()
				w.tracker.Seen(one, secret)
				synctest.Wait()

				two.ProviderSpec.Raw = []byte(broken)
				w.update(two)
				w.remove(one)

				three := w.class("three", "d", "s")
				w.create(three)
				pass(time.Hour)
				w.requireImages("nothing is deleted, and what is needed is made", "k c a", "k c b", "k c d")

				two.ProviderSpec.Raw = specOf("c", "b")
				w.update(two)
				w.requireImages("it is corrected", "k c b", "k c d")

				two.ProviderSpec.Raw = []byte(broken)
				w.update(two)
				w.remove(three)
				w.requireImages("it is broken again", "k c b", "k c d")

				w.remove(two)
				w.requireImages("it is deleted")
			})
		})
	}
}

// TestForeignClasses leaves the classes of others alone.
func TestForeignClasses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret := w.secret("s", "k")

		foreign, untagged, elsewhere := w.class("foreign", "a", "s"), w.class("untagged", "b", "s"), w.class("elsewhere", "d", "s")
		foreign.Provider, untagged.ProviderSpec, elsewhere.Namespace = "aws", runtime.RawExtension{Raw: []byte(`{}`)}, "other"

		_, err := w.mcm.MachineV1alpha1().MachineClasses("other").Create(t.Context(), elsewhere, metav1.CreateOptions{})
		require.NoError(t, err)

		w.create(foreign, untagged)
		w.run()
		w.tracker.Seen(foreign, secret)
		w.tracker.Sweep(t.Context(), foreign, secret)
		w.tracker.Sweep(t.Context(), untagged, secret)
		pass(time.Hour)
		require.Empty(t, w.images.called())
	})
}

// TestSlowProviderDelaysNobody has more stores wait than there were classes of one shoot ever.
func TestSlowProviderDelaysNobody(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		slow, secret := w.secret("slow", "slow"), w.secret("s", "k")
		w.images.hold["slow"] = make(chan struct{})

		one := w.class("one", "a", "slow")
		w.create(one)
		w.run()
		w.tracker.Seen(one, slow)
		synctest.Wait()
		require.Equal(t, []string{"ensure slow"}, w.images.called())

		started := time.Now()

		two := w.class("two", "b", "s")
		w.create(two)
		w.requireImages("the other cluster is not slow", "k c b")

		w.remove(two)
		w.tracker.Sweep(t.Context(), w.terminated(two), secret)
		w.requireImages("")
		require.Zero(t, time.Since(started))

		close(w.images.hold["slow"])
		synctest.Wait()
		w.requireImages("", "slow c a")
	})
}

// TestImageThatCannotBeMade takes all the time that there is to make images.
func TestImageThatCannotBeMade(t *testing.T) {
	t.Parallel()
	inWorld(t, func(_ *testing.T, w *world) {
		w.images.there["k c left-over"] = true
		w.images.hold["ensure k"] = make(chan struct{})

		secret, class := w.secret("s", "k"), w.class("one", "a", "s")
		w.create(class)
		w.run()
		w.tracker.Seen(class, secret)
		pass(time.Minute)
		w.requireImages("what nobody refers to is deleted all the same")

		close(w.images.hold["ensure k"])
		pass(time.Minute)
		w.requireImages("it can be made", "k c a")
	})
}

// holdSecret has nobody get a Secret until what it returns is closed.
func (w *world) holdSecret(name string) chan<- struct{} {
	hold := make(chan struct{})
	w.kube.PrependReactor("get", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if get, ok := action.(clienttesting.GetAction); ok && get.GetName() == name {
			<-hold
		}

		return false, nil, nil
	})

	return hold
}

// TestNothingIsDeletedBeforeAllClassesAreKnown has the control cluster be slow with one Secret.
func TestNothingIsDeletedBeforeAllClassesAreKnown(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.there["k c a"] = true
		w.images.there["k c b"] = true

		secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "b", "slow")
		w.create(one, two)
		w.terminate(one)

		hold := w.holdSecret("slow")
		w.run()
		w.tracker.Seen(one, secret)
		w.tracker.Sweep(t.Context(), one, secret)
		require.Empty(t, w.images.called(), "there may be classes that nobody has looked at")

		close(hold)
		synctest.Wait()
		w.requireImages("the other refers to it", "k c b")
	})
}

// TestClassesGoneBeforeTheElection is how Gardener deletes a hibernated shoot: nobody asks this process for anything.
func TestClassesGoneBeforeTheElection(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.there["k c a"] = true

		one, two := w.class("one", "a", "s"), w.class("two", "a", "s")
		w.secret("s", "k")
		w.create(one, two)
		w.run()
		w.remove(one)
		w.removeSecret()
		pass(time.Minute)
		require.Empty(t, w.images.called(), "the leader will be asked for the machines of the other class")

		w.remove(two)
		w.requireImages("no request can come any more")
	})
}

// TestStop ends a Tracker with an image in use, and with one that is being made.
func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("LastChance", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(_ *testing.T, w *world) {
			secret, class := w.secret("s", "k"), w.class("one", "a", "s")
			w.create(class)
			w.run()
			w.tracker.Seen(class, secret)
			synctest.Wait()
			w.images.set(func() { w.images.inUse["k c a"] = true })
			w.remove(class)
			pass(time.Minute)
			w.images.set(func() { delete(w.images.inUse, "k c a") })
			w.stop()
			w.requireImages("it is not in use any more")
		})
	})

	t.Run("ClassHasJustGone", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(_ *testing.T, w *world) {
			secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "b", "slow")
			w.create(one)
			w.run()
			w.tracker.Seen(one, secret)
			synctest.Wait()

			hold := w.holdSecret("slow")
			w.create(two)
			w.remove(one)

			var stopping sync.WaitGroup
			stopping.Go(func() { w.stop() })
			synctest.Wait()
			w.requireImages("nobody has looked at it yet", "k c a")

			close(hold)
			stopping.Wait()
			w.requireImages("its going is not forgotten")
		})
	})

	t.Run("SlowProvider", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			secret, class := w.secret("s", "k"), w.class("one", "a", "s")
			w.images.hold["k"] = make(chan struct{})
			w.create(class)
			w.run()
			w.tracker.Seen(class, secret)
			synctest.Wait()

			started := time.Now()
			w.stop()
			require.Equal(t, stopTime, time.Since(started), "it gets the time that calls get, and no more")
		})
	})

	t.Run("NotElected", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.run()

			started := time.Now()
			w.stop()
			require.Zero(t, time.Since(started))
		})
	})
}

// stopTime is what the sidecar grants.
const stopTime = 2 * time.Second

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(w.t.Context(), stopTime)
	defer cancel()

	w.tracker.Stop(ctx)
}
