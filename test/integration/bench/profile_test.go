// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// profile shows where the sidecar spends its processor time while fifty more machines are created and deleted at once, again
// and again. These have guests.
func (p *pretended) profile(t *testing.T, sidecar *process.Process) {
	t.Helper()

	const during = 30 * time.Second

	file := filepath.Join(t.ArtifactDir(), fmt.Sprintf("sidecar-%d-machines.pprof", len(p.nodes)))
	profiled := make(chan error, 1)

	go func() {
		profiled <- process.Profile(t.Context(), "127.0.0.1:"+harness.PortOf(sidecar.PID()), file, during)
	}()

	run := seenMachines(t, p.Shoot, func(m *v1alpha1.Machine) bool { return m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning })

	for lives := fifty; ; lives += fifty {
		live(t, p.Shoot, run, len(p.nodes)+lives, fifty)

		select {
		case err := <-profiled:
			require.NoError(t, err)

			hottest, err := process.Hottest(t.Context(), file)
			require.NoError(t, err)
			t.Logf("profile of %s in which up to %d machines lived: %s\n%s", during, lives, file, hottest)

			return
		default:
		}
	}
}
