// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMemoryOf keeps a part of this process's memory in use.
func TestMemoryOf(t *testing.T) {
	const taken = 64

	before, err := MemoryOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, before.Used)
	require.GreaterOrEqual(t, before.Peak, before.Used)

	used := make([]byte, taken<<20)
	for i := range used {
		used[i] = 1
	}

	after, err := MemoryOf(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, after.Peak, float64(taken))
	require.GreaterOrEqual(t, after.Peak, before.Peak)
	runtime.KeepAlive(used)

	_, err = MemoryOf(1 << 30)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestTimeOf computes until the kernel has counted it.
func TestTimeOf(t *testing.T) {
	const enough = 30 * time.Millisecond

	before, err := TimeOf(os.Getpid())
	require.NoError(t, err)

	for after := before; after-before < enough; {
		after, err = TimeOf(os.Getpid())
		require.NoError(t, err)
		require.GreaterOrEqual(t, after, before)
	}

	_, err = TimeOf(1 << 30)
	require.ErrorIs(t, err, os.ErrNotExist)
}
