// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestPlainEvent requires that client-go receives no event that it would log in full.
func TestPlainEvent(t *testing.T) {
	t.Parallel()

	foreign := strings.Repeat("x", 1<<20)
	named := func(version string) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: version}}
	}
	unnamed := named("1")
	unnamed.UID = "../u"
	other := &kubevirtv1.VirtualMachineInstance{ObjectMeta: named("1").ObjectMeta}

	for name, tc := range map[string]struct {
		reason string
		event  watch.Event
		passes bool
	}{
		"Object":        {"as an API server sends it", watch.Event{Type: watch.Modified, Object: named("1")}, true},
		"Bookmark":      {"as an API server sends it", watch.Event{Type: watch.Bookmark, Object: named("1")}, true},
		"OtherKind":     {"client-go logs each of them", watch.Event{Type: watch.Bookmark, Object: other}, false},
		"BadUID":        {"no API server accepts it", watch.Event{Type: watch.Modified, Object: unnamed}, false},
		"NoVersion":     {"client-go quotes the object in an error", watch.Event{Type: watch.Modified, Object: named("")}, false},
		"ObjectAsError": {"client-go logs the object", watch.Event{Type: watch.Error, Object: named("1")}, false},
		"LongError":     {"the message is repeated", watch.Event{Type: watch.Error, Object: &metav1.Status{Message: foreign}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := plainEvent[*kubevirtv1.VirtualMachine](tc.event)
			if tc.passes {
				require.Equal(t, tc.event, got, tc.reason)

				return
			}

			require.Equal(t, watch.Error, got.Type)

			status, ok := got.Object.(*metav1.Status)
			require.True(t, ok)
			require.Less(t, len(status.Message), 10<<10, tc.reason)
		})
	}
}
