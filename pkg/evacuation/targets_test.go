// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation_test

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestEvacuate_RejectedMigrationOfRenewedToken renews the token while the migration is rejected: the same user does not get
// the permission by that. Another user may have it.
func TestEvacuate_RejectedMigrationOfRenewedToken(t *testing.T) {
	t.Parallel()

	for renewed, want := range map[string]string{
		"a/1:second": "m Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: it has waited longer than 1h0m0s, and it cannot be live-migrated: the provider cluster has rejected the migration for longer than 1h0m0s",
		"a/2:first":  "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host: it has waited longer than 1h0m0s",
	} {
		r := newRig(t, "m")
		r.see("z1", "a/1:first")
		r.requireWatches(t, "a/1:first")

		evacuated := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
		r.set(spi.ErrForbidden, evacuated)
		r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: permission denied")

		r.clock.SetTime(r.clock.Now().Add(50 * time.Minute))
		r.see("z1", renewed)
		r.requireWatches(t, renewed)

		r.clock.SetTime(r.clock.Now().Add(20 * time.Minute))
		r.set(nil, evacuated)
		r.await(t, want)
	}
}
