package evacuation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// TestSoakMigrationsMayQueue drains a node with eight machines. The real virt-controller
// migrates two at a time, so that the last ones are queued for longer than the time in
// which a queue must progress.
func TestSoakMigrationsMayQueue(t *testing.T) {
	t.Parallel()

	const (
		machines = 8
		takes    = 6 * time.Second
		timeout  = 15 * time.Second
	)

	e := newEvacuees(t, evacuation.Limits{MaxPerDeployment: machines, Deadline: time.Hour, MigrationTimeout: timeout})
	z := addZone(t, 2)

	kubectl(t, "cordon", z.hosts[1])
	e.PatchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.MigrationLatencyAnnotation: takes.String()}})

	all := e.addIn(t, z.name, machines, migratable)
	awaitMigratable(t, e.Shoot, machines)
	kubectl(t, "uncordon", z.hosts[1])

	for _, m := range all {
		evict(t, e.Shoot, m.Name())
	}

	var first, last time.Time

	for _, m := range all {
		e.told.await(t, m, "EvacuationEnded", "migrated")
		e.requireKept(t, m)

		instance, err := e.KubeVirt.KubevirtV1().VirtualMachineInstances(e.ProviderNamespace).Get(t.Context(), m.Name(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, z.hosts[1], instance.Status.NodeName)

		begun := instance.Status.MigrationState.StartTimestamp.Time
		if first.IsZero() || begun.Before(first) {
			first = begun
		}

		if begun.After(last) {
			last = begun
		}
	}

	require.NotContains(t, e.told.String(), "EvacuationReplacing")
	require.Greater(t, last.Sub(first), timeout, "the last machine must have waited for longer than the queue's timeout")
}

// awaitMigratable waits until the expected number of guests run and can migrate.
func awaitMigratable(t *testing.T, s *harness.Shoot, count int) {
	t.Helper()

	harness.Eventually(t, "all guests can migrate", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		found := 0

		for i := range list.Items {
			if list.Items[i].IsRunning() && list.Items[i].IsMigratable() {
				found++
			}
		}

		return found == count, nil
	})
}
