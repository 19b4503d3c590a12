// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"fmt"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

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
		moved  bool
		phases []kubevirtv1.VirtualMachineInstanceMigrationPhase
	}{
		"Succeeds": {
			reason: "virt-controller's phases, each once",
			fields: migratable,
			moved:  true,
			phases: []kubevirtv1.VirtualMachineInstanceMigrationPhase{
				kubevirtv1.MigrationPending, kubevirtv1.MigrationScheduling, kubevirtv1.MigrationScheduled,
				kubevirtv1.MigrationPreparingTarget, kubevirtv1.MigrationTargetReady, kubevirtv1.MigrationRunning,
				kubevirtv1.MigrationSucceeded,
			},
		},
		"Fails": {
			reason: "the source gives up while it copies",
			fields: hanging,
			phases: []kubevirtv1.VirtualMachineInstanceMigrationPhase{
				kubevirtv1.MigrationPending, kubevirtv1.MigrationScheduling, kubevirtv1.MigrationScheduled,
				kubevirtv1.MigrationPreparingTarget, kubevirtv1.MigrationTargetReady, kubevirtv1.MigrationRunning,
				kubevirtv1.MigrationFailed,
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{})

			m := s.NewMachine("zone-a", harness.EphemeralRoot)
			m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, tc.fields)

			runMachine(t, s, m, d)
			migration := migrate(t, s, m.Name())
			if !tc.moved {
				failWhileRunning(t, s, migration)
			}
			require.Equal(t, tc.phases, phasesUntilEnd(t, s, migration), tc.reason)
			requireMigrated(t, s, m, tc.moved)
			harness.RequireDeleted(t, m, d)
			s.RequireNothingLeft(t)
		})
	}
}

// runMachine creates a machine and waits until its guest runs and can migrate.
func runMachine(t *testing.T, s *harness.Shoot, m *harness.Machine, d driver.Driver) {
	t.Helper()

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	harness.Eventually(t, m.Name()+" can migrate", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 1 && list.Items[0].IsMigratable(), err
	})
}

// migrate creates the migration of an instance.
func migrate(t *testing.T, s *harness.Shoot, instance string) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()

	migration, err := s.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace).Create(t.Context(),
		&kubevirtv1.VirtualMachineInstanceMigration{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
			Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: instance},
		}, metav1.CreateOptions{})
	require.NoError(t, err)

	return migration
}

// failWhileRunning lets a hanging migration fail. It waits for the phase Running first:
// virt-controller never reports that phase if the source fails before virt-controller reads that
// it has started.
func failWhileRunning(t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration) {
	t.Helper()
	awaitMigration(t, s, migration, "runs", func(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
		return m.Status.Phase == kubevirtv1.MigrationRunning
	})

	fails := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, behaviour.FaultAnnotation, behaviour.FaultMigrationFails)
	_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(t.Context(), migration.Spec.VMIName,
		types.MergePatchType, fails, metav1.PatchOptions{})
	require.NoError(t, err)
}

// phasesUntilEnd waits until a migration ends, and returns all its phases.
func phasesUntilEnd(
	t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration,
) []kubevirtv1.VirtualMachineInstanceMigrationPhase {
	t.Helper()
	ended := awaitMigration(t, s, migration, "ends", (*kubevirtv1.VirtualMachineInstanceMigration).IsFinal)

	phases := make([]kubevirtv1.VirtualMachineInstanceMigrationPhase, 0, len(ended.Status.PhaseTransitionTimestamps))
	for _, transition := range ended.Status.PhaseTransitionTimestamps {
		phases = append(phases, transition.Phase)
	}

	return phases
}

// awaitMigration waits for a state of a migration, and returns the migration in that state.
func awaitMigration(
	t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration,
	state string, reached func(*kubevirtv1.VirtualMachineInstanceMigration) bool,
) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()

	harness.Eventually(t, migration.Name+" "+state, func(ctx context.Context) (bool, error) {
		read, err := s.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace).
			Get(ctx, migration.Name, metav1.GetOptions{})
		migration = read

		return err == nil && reached(read), err
	})

	return migration
}

// requireMigrated requires that the guest runs on its target node, or on its source node if it was
// not moved, and that no other launcher is left running.
func requireMigrated(t *testing.T, s *harness.Shoot, m *harness.Machine, moved bool) {
	t.Helper()

	instance, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), m.Name(), metav1.GetOptions{})
	require.NoError(t, err)

	state := instance.Status.MigrationState
	require.Equal(t, kubevirtv1.Running, instance.Status.Phase)
	require.NotEqual(t, state.SourceNode, state.TargetNode)
	require.Equal(t, map[bool]string{true: state.TargetNode, false: state.SourceNode}[moved], instance.Status.NodeName)

	harness.Eventually(t, "only one launcher is running", func(ctx context.Context) (bool, error) {
		pods, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})

		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeName == instance.Status.NodeName, err
	})

	left := map[bool]string{true: state.SourcePod, false: state.TargetPod}[moved]
	harness.Eventually(t, "the other launcher is completed, and stays", func(ctx context.Context) (bool, error) {
		pod, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).Get(ctx, left, metav1.GetOptions{})

		return err == nil && pod.Status.Phase == corev1.PodSucceeded, err
	})
}
