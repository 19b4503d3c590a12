package machineclass_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestClassCreatedAnew has a class be deleted and created again before anybody looks at it: the watch shows one change.
func TestClassCreatedAnew(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, image, secret string
		want                  []string
	}{
		"Same":         {"it refers to the same image", "a", "s", []string{"k c a"}},
		"OtherCluster": {"the old image is deleted where it is", "b", "other", []string{"k2 c b"}},
		"NoSecret":     {"nobody knows where its image is to be", "b", "none", nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				secret := w.secret("s", "k")
				w.secret("other", "k2")

				class := w.class("one", "a", "s")
				w.create(class)
				w.run()
				w.tracker.Seen(class, secret)
				synctest.Wait()
				w.requireImages("", "k c a")

				class = w.class("one", tc.image, tc.secret)
				class.UID = types.UID("anew")
				w.update(class)
				w.requireImages(tc.reason, tc.want...)

				secret, err := w.kube.CoreV1().Secrets(namespace).Get(t.Context(), tc.secret, metav1.GetOptions{})
				if err != nil {
					return
				}

				w.tracker.Sweep(t.Context(), w.terminated(class), secret)
				w.requireImages("a request knows first that it is being deleted")
			})
		})
	}
}

// TestClassStaysDeleted has the watch lag behind a request that tells of the deletion.
func TestClassStaysDeleted(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret, class := w.secret("s", "k"), w.class("one", "a", "s")
		w.create(class)
		w.run()
		w.tracker.Seen(class, secret)
		w.tracker.Sweep(t.Context(), w.terminated(class), secret)
		w.requireImages("it is being deleted")
		w.images.called()

		class.Labels = map[string]string{"changed": "before it was deleted"}
		w.update(class)
		w.requireImages("nothing refers to it any more")
		require.Empty(t, w.images.called())
	})
}

// TestClassWithoutCluster has a class have no tags since before this process began.
func TestClassWithoutCluster(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.there["k c b"] = true

		secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "b", "s")
		two.ProviderSpec.Raw = []byte(`{"region":"r"}`)
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, secret)
		pass(time.Hour)
		w.requireImages("nobody knows the image of two", "k c a", "k c b")
		require.Equal(t, []string{"ensure k"}, w.images.called())

		w.remove(two)
		w.requireImages("nothing refers to its image", "k c a")
	})
}
