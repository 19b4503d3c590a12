package machineclass_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestRotation gives a class another kubeconfig.
func TestRotation(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret, class := w.secret("s", "old"), w.class("one", "a", "s")
		w.create(class)
		w.run()
		w.tracker.Seen(class, secret)
		synctest.Wait()
		w.requireImages("", "old c a")

		renewed := w.secret("s", "new")
		w.tracker.Seen(class, secret)
		synctest.Wait()
		w.images.called()

		w.tracker.Seen(class, renewed)
		synctest.Wait()
		require.Equal(t, []string{"ensure new", "sweep new"}, w.images.called())

		w.tracker.Seen(class, secret)
		synctest.Wait()
		require.Empty(t, w.images.called(), "a request from an old cache changes nothing")

		w.remove(class)
		pass(time.Hour)
		require.Equal(t, []string{"sweep new"}, w.images.called(), "the old credentials are forgotten")
	})
}

// TestRefusedCredentials changes a Secret while no request comes.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.images.errors["old"] = spi.ErrUnauthenticated

		secret, one, two := w.secret("s", "old"), w.class("one", "a", "s"), w.class("two", "b", "s")
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, secret)
		synctest.Wait()

		w.remove(one)
		w.secret("s", "new")
		pass(time.Minute)
		w.requireImages("the Secret is read again", "new c b")
		w.images.called()

		pass(time.Hour)
		require.Empty(t, w.images.called(), "nobody tries the old credentials any more")
	})
}

// TestOldCredentialsOfDeadClasses has a class be deleted whose own Secret was never renewed.
func TestOldCredentialsOfDeadClasses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		old := w.secret("old", "old")
		w.secret("new", "new")

		one, two := w.class("one", "a", "old"), w.class("two", "b", "new")
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, old)
		synctest.Wait()
		w.requireImages("", "old c a", "new c b")

		w.images.set(func() { w.images.errors["old"] = spi.ErrUnauthenticated })
		w.remove(one)
		w.images.called()
		pass(time.Hour)
		require.Empty(t, w.images.called(), "the other credentials lead there too")
	})
}

// TestTwoProviderClusters keeps what is left on a cluster in mind that no class leads to any more.
func TestTwoProviderClusters(t *testing.T) {
	t.Parallel()
	inWorld(t, func(_ *testing.T, w *world) {
		secret := w.secret("s1", "k1")
		w.secret("s2", "k2")

		one, two := w.class("one", "a", "s1"), w.class("two", "b", "s2")
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, secret)
		synctest.Wait()
		w.requireImages("", "k1 c a", "k2 c b")

		w.images.set(func() { w.images.errors["k1"] = spi.ErrUnavailable })
		w.remove(one)
		pass(10 * time.Minute)
		w.requireImages("the cluster is out of reach", "k1 c a", "k2 c b")

		w.images.set(func() { delete(w.images.errors, "k1") })
		pass(30 * time.Second)
		w.requireImages("it is back", "k2 c b")
	})
}

// TestClassWithoutSecret keeps the image of a class whose Secret cannot be read, and makes it as soon as it can.
func TestClassWithoutSecret(t *testing.T) {
	t.Parallel()
	inWorld(t, func(_ *testing.T, w *world) {
		secret := w.secret("s", "k")
		one, two := w.class("one", "a", "s"), w.class("two", "b", "none")
		w.images.there["k c b"] = true
		w.images.there["k c x"] = true
		w.create(one, two)
		w.run()
		w.tracker.Seen(one, secret)
		synctest.Wait()
		w.requireImages("what a class refers to stays, wherever it is", "k c a", "k c b")

		w.secret("none", "k2")
		pass(30 * time.Second)
		w.requireImages("the Secret is there", "k c a", "k c b", "k2 c b")
	})
}

// TestSecretsAreMerged reads the kubeconfig where machine-controller-manager does.
func TestSecretsAreMerged(t *testing.T) {
	t.Parallel()

	ref := func(name, in string) *corev1.SecretReference {
		return &corev1.SecretReference{Name: name, Namespace: in}
	}

	tests := map[string]struct {
		reason              string
		secret, credentials *corev1.SecretReference
		want                []string
	}{
		"Credentials":    {"they win", ref("one", namespace), ref("two", namespace), []string{"k2 c a"}},
		"NoCredentials":  {"there is one Secret", ref("one", namespace), nil, []string{"k1 c a"}},
		"NotThere":       {"machine-controller-manager passes over it", ref("one", namespace), ref("none", namespace), []string{"k1 c a"}},
		"WithoutKey":     {"the other has it", ref("one", namespace), ref("user-data", namespace), []string{"k1 c a"}},
		"OtherNamespace": {"machine-controller-manager does not look there", ref("one", namespace), ref("two", "other"), []string{"k1 c a"}},
		"None":           {"there is nothing to work with", nil, nil, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(_ *testing.T, w *world) {
				w.secret("one", "k1")
				w.secret("two", "k2")
				w.secret("user-data", "")

				class := w.class("class", "a", "")
				class.SecretRef, class.CredentialsSecretRef = tc.secret, tc.credentials
				w.create(class)
				w.run()
				w.tracker.Seen(class, nil)
				synctest.Wait()
				w.requireImages(tc.reason, tc.want...)
			})
		})
	}
}
