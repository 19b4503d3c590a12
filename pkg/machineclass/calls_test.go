package machineclass_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// terminated returns a class as a request carries it that is being deleted.
func (w *world) terminated(class *v1alpha1.MachineClass) *v1alpha1.MachineClass {
	class = class.DeepCopy()
	class.DeletionTimestamp = ptr.To(metav1.Now())

	return class
}

// TestSweepIsOverWhenItReturns has fifty machines of a deleted class go at the same time.
func TestSweepIsOverWhenItReturns(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret, class := w.secret("s", "k"), w.class("one", "a", "s")
		w.create(class)
		w.run()
		w.tracker.Seen(class, secret)
		synctest.Wait()
		w.images.called()

		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				w.tracker.Sweep(t.Context(), w.terminated(class), secret)
				w.requireImages("the request knows before the watch does")
			})
		}

		calls.Wait()
		require.LessOrEqual(t, len(w.images.called()), 50)

		w.images.hold["k"] = make(chan struct{})
		for range 50 {
			calls.Go(func() { w.tracker.Sweep(t.Context(), w.terminated(class), secret) })
		}

		synctest.Wait()
		close(w.images.hold["k"])
		calls.Wait()
		require.LessOrEqual(t, len(w.images.called()), 2, "those that come meanwhile share the next one")
	})
}

// TestSweepIsBounded gives up waiting for a slow provider cluster, and goes on in the background.
func TestSweepIsBounded(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.there["k c a"] = true
		w.images.hold["k"] = make(chan struct{})

		secret, class := w.secret("s", "k"), w.class("one", "a", "s")
		w.create(class)
		w.terminate(class)
		w.run()
		w.tracker.Seen(class, secret)

		started := time.Now()
		w.tracker.Sweep(t.Context(), class, secret)
		require.Equal(t, 20*time.Second, time.Since(started))

		close(w.images.hold["k"])
		synctest.Wait()
		w.requireImages("")
	})
}

// TestSweepOfAnUnknownClass is asked for by a request that comes after the class has gone.
func TestSweepOfAnUnknownClass(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.there["k c a"] = true

		class, secret := w.class("one", "a", "s"), &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("k")}}
		w.run()
		w.tracker.Seen(class, secret)
		w.tracker.Sweep(t.Context(), w.terminated(class), secret)
		w.requireImages("")

		w.images.called()
		pass(time.Hour)
		require.Empty(t, w.images.called(), "its credentials are forgotten")
	})
}
