// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// proven are the results of this run.
var proven proofs

// started is the start of this run, which includes that of the lab.
var started = time.Now()

// proves adds a test to the table at the end of the run. It is the first call of a test, so that the
// row includes the end of its guests.
func proves(t *testing.T, what string) {
	t.Helper()

	if proven.ready == 0 {
		proven.ready = time.Since(started)
		proven.image = describeImage(t)
	}

	began := time.Now()
	used := harness.Lab().Guests.CPUTime()

	t.Cleanup(func() {
		proven.rows = append(proven.rows, proof{
			test:   t.Name(),
			what:   what,
			failed: t.Failed(),
			wall:   time.Since(began),
			cpu:    harness.Lab().Guests.CPUTime() - used,
		})
	})
}

// describeImage returns the size of the guests' image, and whether this run has built it.
func describeImage(t *testing.T) string {
	t.Helper()

	file, err := guest.EnsureImage(t.Context(), harness.Lab().Binaries.Kubelet, io.Discard)
	require.NoError(t, err)

	info, err := os.Stat(file)
	require.NoError(t, err)

	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)

	origin := "built on " + info.ModTime().Format(time.DateOnly)
	if info.ModTime().After(started) {
		origin = "built in this run"
	}

	const block = 512 // the unit of stat(2)

	return fmt.Sprintf("The guests' image contains %d MiB on a disk of %d MiB; %s.", stat.Blocks*block>>20, info.Size()>>20, origin)
}
