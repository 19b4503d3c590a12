// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerid_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
)

func TestFormat_IsFrozen(t *testing.T) {
	t.Parallel()

	require.Equal(t, "kubevirt://shoot--dev--x-worker-z1-5f4d8-abcde", providerid.Format("shoot--dev--x-worker-z1-5f4d8-abcde"))
}
