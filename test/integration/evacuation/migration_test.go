// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// Fields of a ProviderSpec.
const (
	masquerade = `"networks":[{"pod":{},"masquerade":{}}]`
	// migratable are the fields of a guest that can be live-migrated. Without them it cannot, since
	// its address on a bridge cannot migrate.
	migratable = `{` + masquerade + `}`
	// migratedByDriver is the same, and leaves the migration to the driver: of a machine that is known to be able to
	// migrate, KubeVirt has it.
	migratedByDriver = `{` + masquerade + `,"virtualMachineTemplate":{"spec":{"template":{"spec":{"evictionStrategy":"External"}}}}}`
	// failing are the fields of a guest that can be live-migrated, but whose migrations fail.
	failing = `{` + masquerade + `,
		"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/fault":"migration-fails"}}}}}}`
	// hanging are the fields of a guest that can be live-migrated, but whose migrations never end.
	hanging = `{` + masquerade + `,
		"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/fault":"migration-hangs"}}}}}}`
)

// TestLiveMigration lets the real virt-controller migrate a machine, and the simulated
// virt-handlers do their part. For the driver the machine stays the same.
func TestLiveMigration(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		fields string
		end    kubevirtv1.VirtualMachineInstanceMigrationPhase
	}{
		"Succeeds": {reason: "the target takes the guest over", fields: migratable, end: kubevirtv1.MigrationSucceeded},
		"Fails":    {reason: "the source gives up while it copies", fields: hanging, end: kubevirtv1.MigrationFailed},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{})

			m := s.NewMachine("zone-a", harness.EphemeralRoot)
			m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, tc.fields)
			s.RegisterMachine(t, m)

			_, err := m.Create(t.Context(), d)
			require.NoError(t, err)
			guests.AwaitAgent(t, s, m.Name())

			migration := guests.StartMigration(t, s, m.Name())
			if tc.end == kubevirtv1.MigrationFailed {
				failWhileRunning(t, s, migration)
			}

			guests.RequireMigrationEnd(t, s, migration, tc.end)
			harness.RequireDeleted(t, m, d)
			s.RequireNothingLeft(t)
		})
	}
}

// TestObstacle creates machines that cannot migrate.
func TestObstacle(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason   string
		root     string
		fields   string
		obstacle guests.Obstacle
	}{
		"Bridge": {reason: "the default binding", root: harness.EphemeralRoot, fields: `{}`, obstacle: guests.BridgeObstacle},
		"Volume": {
			reason: "the access mode",
			root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},"storage":{"storageClassName":"immediate",
				"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
			fields:   migratable,
			obstacle: guests.VolumeObstacle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{})
			m := s.NewMachine("zone-a", tc.root)
			m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, tc.fields)

			_, err := m.Create(t.Context(), d)
			require.NoError(t, err)
			m.AwaitScheduled(t, d)
			guests.AwaitObstacle(t, s, m.Name(), tc.obstacle)
			harness.RequireDeleted(t, m, d)
		})
	}
}

// failWhileRunning lets a hanging migration fail. It waits for the phase Running first:
// virt-controller never reports that phase if the source fails before virt-controller reads that
// it has started.
func failWhileRunning(t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration) {
	t.Helper()
	guests.AwaitMigration(t, s, migration, "runs", func(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
		return m.Status.Phase == kubevirtv1.MigrationRunning
	})

	fails := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, behaviour.FaultAnnotation, behaviour.FaultMigrationFails)
	_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(t.Context(), migration.Spec.VMIName,
		types.MergePatchType, fails, metav1.PatchOptions{})
	require.NoError(t, err)
}
