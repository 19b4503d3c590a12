// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldLines(t *testing.T) {
	t.Parallel()

	const text = `kind: List
items:
- kind: MachineClass
  providerSpec:
    tags:
      example.com/cluster: c
    networks:
    - name: a
    - name: b
      default: true
`

	lines := linesOf([]byte(text), 10)
	require.Equal(t, 11, lines.line("kind"))
	require.Equal(t, 12, lines.line("items.none"), "the object that lacks it")

	item := lines.item(0)
	require.Equal(t, 13, item.line(""))
	require.Equal(t, 16, item.line("providerSpec.tags[example.com/cluster]"))
	require.Equal(t, 20, item.line("providerSpec.networks[1].default"))
	require.Equal(t, 19, item.line("providerSpec.networks[1].pod"))
	require.Equal(t, 17, item.line("providerSpec.networks[2]"))
	require.Zero(t, lines.item(1).line("kind"))
	require.Zero(t, linesOf([]byte("\t"), 0).line("kind"))
}
