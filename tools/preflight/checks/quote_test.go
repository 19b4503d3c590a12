// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuoted(t *testing.T) {
	t.Parallel()

	require.Equal(t, "a-b.c/d:e=f", quoted("a-b.c/d:e=f"))
	require.Equal(t, "'a b'", quoted("a b"))
	require.Equal(t, `'a'\''; b'`, quoted("a'; b"))
	require.Equal(t, "NAME", quoted("--kubeconfig=x"), "not a flag")
	require.Equal(t, "NAME", quoted(""))
}
