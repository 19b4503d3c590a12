// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package contract

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestSoakListOfThousands lists two thousand machines. The list must contain each, and
// none of two hundred others.
func TestSoakListOfThousands(t *testing.T) {
	const many, others = 2000, 200

	s := harness.NewShoot(t)
	s.CreateHaltedVMs(t, many, others)

	listed, err := s.NewMachine("zone-a", harness.EphemeralRoot).List(t.Context(), harness.NewDriver(harness.Settings{Grace: time.Minute}))
	require.NoError(t, err)
	require.Len(t, listed, many)

	for i := range many {
		require.Contains(t, listed, fmt.Sprintf("kubevirt://m-%d", i))
	}
}
