// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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
	for _, name := range []string{"etcd-current", "etcd-other", "cdi-1.65-current", "cdi-1.62-other", "run", "state"} {
		require.NoError(t, os.Mkdir(filepath.Join(cache, name), 0o700))
	}

	l := layout{targets: map[string]string{
		"etcd": filepath.Join(cache, "etcd-current"), "cdi": filepath.Join(cache, "cdi-1.65-current"),
	}}

	require.NoError(t, l.prune(time.Now()))
	require.DirExists(t, filepath.Join(cache, "etcd-other"), "another checkout may use it")
	require.DirExists(t, filepath.Join(cache, "cdi-1.62-other"), "the tests run several versions")

	require.NoError(t, l.prune(time.Now().Add(keepFor+time.Minute)))
	require.NoDirExists(t, filepath.Join(cache, "etcd-other"))
	require.NoDirExists(t, filepath.Join(cache, "cdi-1.62-other"))

	for _, name := range []string{"etcd-current", "cdi-1.65-current", "run", "state"} {
		require.DirExists(t, filepath.Join(cache, name))
	}
}
