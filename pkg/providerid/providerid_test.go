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

func TestParse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		id     string
		want   string
		fails  bool
	}{
		"Own":        {reason: "what Format makes is understood", id: "kubevirt://a-1", want: "a-1"},
		"Empty":      {reason: "a Machine without a VM has no provider ID", id: "", fails: true},
		"NoName":     {reason: "a name is required", id: "kubevirt://", fails: true},
		"Namespaced": {reason: "the cloud-controller-manager knows no namespaces", id: "kubevirt://ns/a", fails: true},
		"Dotted":     {reason: "the predecessor's machines may have dots in their names", id: "kubevirt://a.b", want: "a.b"},
		"Foreign":    {reason: "other providers' IDs are not ours", id: "aws:///eu/i-1", fails: true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := providerid.Parse(tc.id)
			require.Equal(t, tc.fails, err != nil, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func FuzzParse_RoundTrip(f *testing.F) {
	f.Add("a")
	f.Add("shoot--x-1")
	f.Add("with/slash")
	f.Fuzz(func(t *testing.T, name string) {
		if got, err := providerid.Parse(providerid.Format(name)); err == nil {
			require.Equal(t, name, got)
		}
	})
}
