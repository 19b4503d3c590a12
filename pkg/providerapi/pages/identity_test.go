// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

func TestCheck(t *testing.T) {
	t.Parallel()

	const uuid = "3f0e6a5e-7f0c-4d2c-9d57-5cbb0c1e7a6b"

	for name, tc := range map[string]struct {
		reason               string
		name, namespace, uid string
		accepted             bool
	}{
		"Machine":   {"as an API server sends it", "shoot--foo-worker-z1-5d8f7-abcde", "machines", uuid, true},
		"Node":      {"names of nodes are domains", "node-1.example.com", "", uuid, true},
		"Review":    {"reviews have neither a name nor a UID", "", "", "", true},
		"Path":      {"it would become a part of a URL", "../secrets", "machines", uuid, false},
		"Event":     {"names of Events are no domains", "virt-launcher-m-x7xzv.Failed", "machines", uuid, true},
		"Control":   {"it would become a part of the log", "m\nm", "machines", uuid, false},
		"LongName":  {"no name is so long", strings.Repeat("m", 507), "machines", uuid, false},
		"Namespace": {"it would become a part of a URL", "m", "a/b", uuid, false},
		"LineBreak": {"it would become a part of the log", "m", "machines", "u\nu", false},
		"LongUID":   {"no UID is so long", "m", "machines", strings.Repeat("u", 64), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := pages.Check(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: tc.name, Namespace: tc.namespace, UID: types.UID(tc.uid)}})
			if tc.accepted {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorIs(t, err, pages.ErrIdentity, tc.reason)
			}
		})
	}

	require.ErrorIs(t, pages.Check(&metav1.List{}), pages.ErrIdentity, "it is no object")
}
