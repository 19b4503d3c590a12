// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMemoryOf requires an estimate between the bytes of the texts and three times as much.
func TestMemoryOf(t *testing.T) {
	t.Parallel()

	const long = 1 << 20

	text := strings.Repeat("x", long)

	type pair struct {
		unexported string
		any        any
		time       metav1.Time
	}

	entries := map[int][64]byte{}
	for i := range 10_000 {
		entries[i] = [64]byte{}
	}

	for name, tc := range map[string]struct {
		reason string
		value  any
		texts  int64
	}{
		"Text":    {"it is the text", text, long},
		"Pointer": {"it refers to the text", &text, long},
		"Nothing": {"a nil pointer refers to nothing", (*pair)(nil), 0},
		"Struct":  {"fields that JSON does not have count, too", pair{unexported: text, any: text, time: metav1.Now()}, 2 * long},
		"Slice":   {"every element counts", []string{text, text, ""}, 2 * long},
		"Room":    {"a slice may have more room than elements", make([]byte, 0, long), long},
		"Array":   {"every element counts", [2]string{text, text}, 2 * long},
		"Map":     {"keys count, too", map[string]string{text: text}, 2 * long},
		"Entries": {"an entry takes memory, too", entries, 10_000 * 80},
		"Object":  {"a name may be long", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: text}}, long},
		"Empty":   {"an element without a text takes memory", make([]metav1.ManagedFieldsEntry, 10_000), 10_000 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			bytes := memoryOf(reflect.ValueOf(tc.value))
			require.GreaterOrEqual(t, bytes, tc.texts, tc.reason)
			require.LessOrEqual(t, bytes, 3*tc.texts+1024, tc.reason)
		})
	}
}
