// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCounts(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int64{9, 10, 11}, parseCounts("SeaBIOS\r\n\r\n0009\r\n000A\r\n000B\r\n00"), "the last line is incomplete")
	require.Empty(t, parseCounts("Booting from Hard Disk...\n"))
}

func TestCounterConsole(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&demo{}).counterConsole(), "nothing runs")
	require.Equal(t, "\n  console: 7", (&demo{counter: counter{node: "provider-a-0", first: 1, last: 7}}).counterConsole())
}

func TestOutlook_RealNodes(t *testing.T) {
	t.Parallel()
	d := &demo{options: options{realNodes: true}}
	require.Contains(t, d.outlook(true, true), "the demo takes 4 minutes")
	require.Contains(t, d.outlook(true, false), "20 to 40 minutes", "the images are missing")
}
