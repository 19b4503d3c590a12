// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestReferences shows which images MachineClasses refer to.
func TestReferences(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		heard  []Class
		after  time.Duration
		// unneeded is whether the images a and b are.
		a, b bool
	}{
		"Living":       {"both are referred to", []Class{class("1", "a", false), class("2", "b", false)}, 0, false, false},
		"Deleted":      {"one MachineClass is being deleted", []Class{class("1", "a", true), class("2", "b", false)}, 0, true, false},
		"Shared":       {"another MachineClass has the same image", []Class{class("1", "a", true), class("2", "a", false)}, 0, false, false},
		"Changed":      {"the MachineClass has another image now", []Class{class("1", "a", true), class("1", "b", true)}, 0, false, true},
		"Unknown":      {"not all MachineClasses are known", nil, 0, false, false},
		"Silent":       {"what is not known to be deleted stays", []Class{class("1", "a", false)}, 3 * period, false, false},
		"DeletedLong":  {"the next one of this name is another", []Class{class("1", "a", true)}, 3 * period, false, false},
		"OtherCluster": {"", []Class{{Cluster: "other", Name: types.NamespacedName{Name: "1"}, Image: "a", Deleted: true}}, 0, false, false},
		"NoImage":      {"it uses none", []Class{class("1", "a", true), class("1", "", false)}, 0, false, false},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			clock := clocktesting.NewFakePassiveClock(time.Now())
			r := newRegistry(clock, period)

			for _, c := range tc.heard {
				r.register(c)
			}

			clock.SetTime(clock.Now().Add(tc.after))

			refs := r.references("c")
			require.Equal(t, tc.a, refs.unneeded("a", time.Time{}), tc.reason)
			require.Equal(t, tc.b, refs.unneeded("b", time.Time{}), tc.reason)
		})
	}
}

// TestRegistry_Bounds registers more MachineClasses, clusters and sweeps than fit.
func TestRegistry_Bounds(t *testing.T) {
	t.Parallel()

	r := newRegistry(clocktesting.NewFakePassiveClock(time.Now()), period)

	for i := range maxClasses + 10 {
		name := strconv.Itoa(i)
		r.register(class(name, "a", false))
		r.registerListing(name)
		r.sweepDue("s", name)
	}

	require.Len(t, r.classes.Keys(), maxClasses)
	require.Len(t, r.clusters.Keys(), maxClasses)
	require.Len(t, r.swept.Keys(), maxClasses)
}
