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
	require.Contains(t, simulated.outlook(false, false), "10 to 20 minutes")
	require.Contains(t, simulated.outlook(true, false), "takes 2 minutes")
}
