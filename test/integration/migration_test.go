package integration

import (
	"context"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Fields of a ProviderSpec.
const (
	masquerade = `"networks":[{"pod":{},"masquerade":{}}]`
	// migratable are the fields of a guest that can be live-migrated. Without them it cannot, since
	// its address on a bridge cannot migrate.
	migratable = `{` + masquerade + `}`
	// failing are the fields of a guest that can be live-migrated, but whose migrations fail.
	failing = `{` + masquerade + `,
		"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/fault":"migration-fails"}}}}}}`
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
			reason: "virt-controller's phases, each once", fields: migratable, moved: true,
			phases: []kubevirtv1.VirtualMachineInstanceMigrationPhase{
				kubevirtv1.MigrationPending, kubevirtv1.MigrationScheduling, kubevirtv1.MigrationScheduled,
				kubevirtv1.MigrationPreparingTarget, kubevirtv1.MigrationTargetReady, kubevirtv1.MigrationRunning,
				kubevirtv1.MigrationSucceeded,
			},
		},
		"Fails": {
			reason: "the source gives up while it copies", fields: failing,
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

			s, d := newShoot(t), newDriver(settings{})

			m := s.newMachine("zone-a", ephemeralRoot)
			m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, tc.fields)

			s.runMachine(t, m, d)
			require.Equal(t, tc.phases, s.migrate(t, m.name()), tc.reason)
			s.requireMigrated(t, m, tc.moved)
			requireDeleted(t, m, d)
			s.requireNothingLeft(t)
		})
	}
}

// runMachine creates a machine and waits until its guest runs and can migrate.
func (s *shoot) runMachine(t *testing.T, m *machine, d driver.Driver) {
	t.Helper()

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	eventually(t, m.name()+" can migrate", func(ctx context.Context) (bool, error) {
		list, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 1 && list.Items[0].IsMigratable(), err
	})
}

// migrate creates a migration and returns all its phases.
func (s *shoot) migrate(t *testing.T, instance string) []kubevirtv1.VirtualMachineInstanceMigrationPhase {
	t.Helper()

	migrations := s.kubevirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace)
	made, err := migrations.Create(t.Context(), &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: instance},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, made.Name+" ends", func(ctx context.Context) (bool, error) {
		made, err = migrations.Get(ctx, made.Name, metav1.GetOptions{})

		return err == nil && made.IsFinal(), err
	})

	phases := make([]kubevirtv1.VirtualMachineInstanceMigrationPhase, 0, len(made.Status.PhaseTransitionTimestamps))
	for _, transition := range made.Status.PhaseTransitionTimestamps {
		phases = append(phases, transition.Phase)
	}

	return phases
}

// requireMigrated requires that the guest runs on its target node, or on its source node if it was
// not moved, and that no other launcher is left running.
func (s *shoot) requireMigrated(t *testing.T, m *machine, moved bool) {
	t.Helper()

	instance, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), m.name(), metav1.GetOptions{})
	require.NoError(t, err)

	state := instance.Status.MigrationState
	require.Equal(t, kubevirtv1.Running, instance.Status.Phase)
	require.NotEqual(t, state.SourceNode, state.TargetNode)
	require.Equal(t, map[bool]string{true: state.TargetNode, false: state.SourceNode}[moved], instance.Status.NodeName)

	eventually(t, "one launcher runs on", func(ctx context.Context) (bool, error) {
		pods, err := s.kube.CoreV1().Pods(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})

		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeName == instance.Status.NodeName, err
	})
}
