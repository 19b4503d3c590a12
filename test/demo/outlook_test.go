// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutlook(t *testing.T) {
	t.Parallel()
	simulated := &demo{}
	booting := &demo{options: options{realGuest: true}}
	require.Contains(t, simulated.outlook(false, false), "10 to 20 minutes")
	require.Contains(t, simulated.outlook(true, false), "2 to 3 minutes")
	require.Contains(t, booting.outlook(true, false), "15 to 30 minutes", "the image is missing")
	require.Contains(t, booting.outlook(true, true), "the demo takes 3 minutes")
}
