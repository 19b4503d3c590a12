package binaries

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPruneKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()

	cache := t.TempDir()
	for _, name := range []string{"etcd-current", "etcd-other", "run", "state"} {
		require.NoError(t, os.Mkdir(filepath.Join(cache, name), 0o700))
	}

	l := layout{targets: map[string]string{"etcd": filepath.Join(cache, "etcd-current")}}

	require.NoError(t, l.prune(time.Now()))
	require.DirExists(t, filepath.Join(cache, "etcd-other"), "another checkout may use it")

	require.NoError(t, l.prune(time.Now().Add(keepFor+time.Minute)))
	require.NoDirExists(t, filepath.Join(cache, "etcd-other"))

	for _, name := range []string{"etcd-current", "run", "state"} {
		require.DirExists(t, filepath.Join(cache, name))
	}
}
