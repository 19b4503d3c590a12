package machineclass_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClassesThatVanish go without having been deleted, as those of a control plane that moves elsewhere do.
func TestClassesThatVanish(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		secret, moved, deleted, last := w.secret("s", "k"), w.class("moved", "a", "s"), w.class("deleted", "b", "s"), w.class("last", "c", "s")
		w.create(moved, deleted, last)
		w.run()
		w.tracker.Seen(moved, secret)
		synctest.Wait()
		w.images.set(func() { w.images.lived = map[string]bool{"k c a": true, "k c b": true, "k c c": true} })

		w.terminate(deleted)
		w.remove(moved, deleted)
		w.requireImages("the machines of one live on, and those of the other are to end", "k c a", "k c c")

		w.remove(last)
		w.removeSecret()
		pass(time.Hour)
		w.requireImages("no class is left, and machines are", "k c a", "k c c")

		w.images.set(func() { clear(w.images.lived) })
		pass(5 * time.Minute)
		w.requireImages("no machine is left")
		w.images.called()

		pass(time.Hour)
		require.Empty(t, w.images.called(), "nothing is left to do")
	})
}
