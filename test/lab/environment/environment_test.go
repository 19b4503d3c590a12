// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOptions_Inotify requires that Linux' default suffices for what the tests run at once.
func TestOptions_Inotify(t *testing.T) {
	t.Parallel()

	const allowed = 128

	realNodes := Options{RealNodes: 2}
	for name, test := range map[string]struct {
		reason string
		labs   []Options
	}{
		"lab in a lab": {reason: "TestKilledLab starts a second lab beside its own", labs: []Options{realNodes, {RealNodes: 1}}},
		"make verify":  {reason: "the suites of the driver and the extension run beside each other", labs: []Options{{}, {SeparateTarget: true}}},
		"both suites":  {reason: "a developer runs the suite of real nodes beside another one", labs: []Options{realNodes, {SeparateTarget: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			sum := 0
			for _, lab := range test.labs {
				sum += lab.inotify()
			}
			require.LessOrEqual(t, sum, allowed, test.reason)
		})
	}
}

// TestPrepare_ChecksFirst requires that versions are refused before Gardener's programs are built.
func TestPrepare_ChecksFirst(t *testing.T) {
	t.Setenv("CDI", "1.64")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that nothing is built
	require.ErrorContains(t, Prepare(ctx, Options{RealNodes: 1, Gardener: true}), "CDI=1.64: real nodes run")
}
