// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// linuxSpec returns the ProviderSpec of a guest that boots Linux instead of its root disk.
func linuxSpec(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	return harness.MergeFields(t, counterSpec(t, s), fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"spec":{
		"terminationGracePeriodSeconds":0,
		"domain":{"firmware":{"kernelBoot":{
			"kernelArgs":"console=ttyS0 quiet",
			"container":{"image":%q,"kernelPath":%q,"initrdPath":%q,"imagePullPolicy":"IfNotPresent"}
		}}}
	}}}}}`, images.Linux, images.LinuxKernel, images.LinuxInitrd))
}

// looping returns user data with which a guest of linuxSpec runs commands every second. It counts as the counting guest does.
func looping(commands string) func(*testing.T, *harness.Shoot) string {
	return func(*testing.T, *harness.Shoot) string {
		return fmt.Sprintf(`#!/bin/sh
n=0
while :; do
  n=$((n + 1))
  printf '%%04x\n' $n
  echo "boot $(cat /proc/sys/kernel/random/boot_id)"
%s
  sleep 1
done
`, commands)
	}
}

// awaitConsole waits until the guest of a machine has written a line on the console of its present launcher.
func (w *worker) awaitConsole(t *testing.T, line string) {
	t.Helper()
	harness.Eventually(t, w.machine.Name+" writes "+line, func(ctx context.Context) (bool, error) {
		console, err := w.consoleOf(ctx, w.machine.Name)

		return err == nil && strings.Contains(console, line), err
	})
}

// guestBoot returns the boot that the guest has written last.
func (w *worker) guestBoot(t *testing.T) string {
	t.Helper()

	const mark = "boot "

	w.awaitConsole(t, mark)

	console, err := w.consoleOf(t.Context(), w.machine.Name)
	require.NoError(t, err)

	line, _, _ := strings.Cut(console[strings.LastIndex(console, mark):], "\n")

	return strings.TrimSpace(line)
}
