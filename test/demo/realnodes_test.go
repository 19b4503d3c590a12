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
