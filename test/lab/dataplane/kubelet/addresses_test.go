// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressPool(t *testing.T) {
	t.Parallel()
	pool := NewAddressPool(10, 244)
	require.Equal(t, "10.244.0.1", pool.Next())
	require.Equal(t, "10.244.0.2", pool.Next())
	pool.Reserve("10.244.0.254")
	pool.Reserve("10.244.0.9")  // older
	pool.Reserve("127.244.3.3") // another pool's
	pool.Reserve("fd00::1")     // not IPv4
	pool.Reserve("no address")  // invalid
	require.Equal(t, "10.244.1.1", pool.Next(), "continues where a former run ended")
}
