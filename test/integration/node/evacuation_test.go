// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	migrationsv1alpha1 "kubevirt.io/api/migrations/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// evacuation lets the sidecar evacuate machines.
const evacuation = "--evacuation"

// localPool is the name of the pool whose machines cannot migrate, since their disks are not shared.
const localPool = "local"

// localGracePeriod is long enough to see a guest that shuts down.
const localGracePeriod = 20

// newEvacuated creates a pool of one Machine that can migrate, which runs when it returns.
func newEvacuated(t *testing.T) *worker {
	t.Helper()

	w := newEvacuatedShoot(t)
	w.AddPool(t, pool, 1, importedSpec(corev1.ReadWriteMany, 0)(t, w.Shoot))
	w.machine = w.awaitMachine(t, pool)

	return w
}

// newEvacuatedShoot returns a worker without a Machine, of a shoot whose driver evacuates machines, and whose guests join.
func newEvacuatedShoot(t *testing.T) *worker {
	t.Helper()
	record(t)

	w := &worker{Shoot: harness.NewShoot(t), began: time.Now()}
	_, err := harness.Lab().AllowEvacuation(t.Context(), w.Shoot.Shoot)
	require.NoError(t, err)

	w.applySecrets(t, noUserData(t, w.Shoot))
	w.RunControllers(t, evacuation)
	w.recordStates(t)
	w.letGuestsJoin(t)

	return w
}

// cordonOthers lets new pods only run on one provider node (cordon), or on all again (uncordon).
func (w *worker) cordonOthers(t *testing.T, node, verb string) {
	t.Helper()

	for _, other := range w.nodes(t) {
		if other != node {
			w.kubectl(t, verb, other)
		}
	}
}

// TestEvacuation_OneAtATime drains a node under machines that cannot migrate, on which pods of the shoot run. The driver replaces one after the
// other, and machine-controller-manager drains it before, so that no PodDisruptionBudget is violated and no pod ends with its guest.
func TestEvacuation_OneAtATime(t *testing.T) {
	const machines = 3

	w := newEvacuatedShoot(t)
	source := w.nodes(t)[0]

	w.cordonOthers(t, source, "cordon")
	w.AddPool(t, localPool, machines, importedSpec(corev1.ReadWriteOnce, 0)(t, w.Shoot))

	running := w.AwaitRunning(t, machines)
	w.cordonOthers(t, source, "uncordon")

	apps := []harness.Application{
		{Name: "spread", Pool: localPool, Replicas: machines},
		{Name: "together", Pool: localPool, Replicas: 2, Node: slices.Min(slices.Collect(maps.Keys(running)))},
	}
	for _, app := range apps {
		w.RunApplication(t, app)
	}

	observer := w.Watch(t, harness.NewTimeline(), map[string]int32{localPool: machines})
	require.NoError(t, <-w.drain(t, source))
	harness.Eventually(t, "no guest is left on "+source, func(context.Context) (bool, error) {
		return !slices.Contains(slices.Collect(maps.Values(w.running(t))), source), nil //nolint:contextcheck // it ends with the test
	})
	w.AwaitRunning(t, machines)
	observer.Print(t)

	require.Len(t, observer.Deletions(), machines, "each was replaced once")
	observer.RequireAtMostAway(t, 1)
	observer.RequireEvicted(t, machines)
	observer.RequireBudgetsKept(t, apps...)
	observer.RequireNoWarnings(t)
	w.kubectl(t, "uncordon", source)

	for _, app := range apps {
		w.StopApplication(t, app)
	}

	w.AwaitEnd(t)
}

// TestEvacuation_DriverStopped drains a node of which one machine migrates and one is replaced, while the driver is killed in the middle
// of the migration.
func TestEvacuation_DriverStopped(t *testing.T) {
	w := newEvacuated(t)
	source := w.instance(t).Status.NodeName

	w.cordonOthers(t, source, "cordon")
	w.AddPool(t, localPool, 1, importedSpec(corev1.ReadWriteOnce, localGracePeriod)(t, w.Shoot))
	local := w.awaitMachine(t, localPool)
	guests.AwaitObstacle(t, w.Shoot, local.Name, guests.VolumeObstacle)

	w.cordonOthers(t, source, "uncordon")
	w.slowMigrations(t)

	before := w.instance(t)
	count := w.lastCount(t)
	drained := w.drain(t, source)
	w.awaitMigration(t, kubevirtv1.MigrationRunning)

	killed := time.Now()
	w.KillSidecar(t, evacuation)

	w.awaitEvent(t, local.Name, "EvacuationEnded", "replaced")
	require.NotContains(t, w.running(t), local.Name, "its guest has left the node")
	require.NoError(t, <-drained)

	require.Equal(t, before.UID, w.instance(t).UID, "it has migrated")
	require.Greater(t, w.instance(t).Status.MigrationState.EndTimestamp.Unix(), killed.Unix(), "without the driver")
	w.recordMigration(t, count)
	require.NotEqual(t, source, w.instance(t).Status.NodeName)
	require.NotEqual(t, local.Name, w.awaitMachine(t, localPool).Name, "it was replaced")
	require.Equal(t, w.machine.Name, w.awaitMachine(t, pool).Name)
	w.kubectl(t, "uncordon", source)
	w.AwaitEnd(t)
}

// TestEvacuation_Cancelled cancels a drain during the migration, which then ends.
func TestEvacuation_Cancelled(t *testing.T) {
	w := newEvacuated(t)
	before := w.instance(t)
	source := before.Status.NodeName
	count := w.lastCount(t)
	ctx, cancel := context.WithCancel(t.Context())
	drained := w.drainWith(ctx, t, source)
	w.awaitMigration(t, "")
	cancel()
	require.Error(t, <-drained)
	w.kubectl(t, "uncordon", source)

	w.awaitEvent(t, w.machine.Name, "EvacuationEnded", "migrated")
	require.Equal(t, before.UID, w.instance(t).UID, "the guest goes on")
	w.recordMigration(t, count)
	w.awaitCount(t, w.awaitCount(t, 1)+3)
	require.Equal(t, w.machine.Name, w.awaitMachine(t, pool).Name, "it was not replaced")
	w.AwaitEnd(t)
}

// TestEvacuation_MigrationFails kills the targets of all migrations, since KubeVirt repeats one that fails. The machine is then replaced.
func TestEvacuation_MigrationFails(t *testing.T) {
	w := newEvacuated(t)
	w.slowMigrations(t)

	before := w.instance(t)
	drained := w.drain(t, before.Status.NodeName)
	harness.Eventually(t, "the machine is replaced", func(ctx context.Context) (bool, error) {
		replacing, err := w.hasEvent(ctx, t, w.machine.Name, "EvacuationReplacing", "its live migration has failed")
		if replacing || err != nil {
			return replacing, err
		}

		return false, w.killTarget(ctx)
	})
	require.NoError(t, <-drained)
	require.NotEqual(t, w.machine.Name, w.awaitMachine(t, pool).Name, "it was replaced")
	w.kubectl(t, "uncordon", before.Status.NodeName)
	w.AwaitEnd(t)
}

// running returns the provider nodes of the guests that run, by the names of their instances.
func (w *worker) running(t *testing.T) map[string]string {
	t.Helper()

	list, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	nodes := map[string]string{}

	for i := range list.Items {
		if list.Items[i].IsRunning() {
			nodes[list.Items[i].Name] = list.Items[i].Status.NodeName
		}
	}

	return nodes
}

// slowMigrations lets the migrations of the shoot's machines last for seconds.
func (w *worker) slowMigrations(t *testing.T) {
	t.Helper()

	policies := w.KubeVirt.MigrationsV1alpha1().MigrationPolicies()
	_, err := policies.Create(t.Context(), &migrationsv1alpha1.MigrationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name},
		Spec: migrationsv1alpha1.MigrationPolicySpec{
			BandwidthPerMigration: new(resource.MustParse("1Mi")),
			Selectors:             &migrationsv1alpha1.Selectors{NamespaceSelector: migrationsv1alpha1.LabelSelector{corev1.LabelMetadataName: w.ProviderNamespace}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, policies.Delete(context.WithoutCancel(t.Context()), w.Name, metav1.DeleteOptions{}))
	})
}

// killTarget kills the launcher of a migration's target if it runs.
func (w *worker) killTarget(ctx context.Context) error {
	pods, err := w.Kube.CoreV1().Pods(w.ProviderNamespace).List(ctx, metav1.ListOptions{LabelSelector: kubevirtv1.MigrationJobLabel})
	if err != nil {
		return err
	}

	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			_, err := harness.Lab().Nodes.KillProgram(pods.Items[i].Spec.NodeName, "virt-launcher")

			return err
		}
	}

	return nil
}

// serveCounter serves the counting guest's disk in the nodes' network, and returns its URL.
func serveCounter(t *testing.T) string {
	t.Helper()

	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "disk.raw", time.Time{}, bytes.NewReader(images.CounterDisk()))
	})
}

// drain runs kubectl drain, and returns its result when it ends.
func (w *worker) drain(t *testing.T, node string) <-chan error {
	t.Helper()

	return w.drainWith(t.Context(), t, node)
}

func (w *worker) drainWith(ctx context.Context, t *testing.T, node string) <-chan error {
	t.Helper()

	begin := time.Now()
	command := kubectlCommand(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=15m")
	ended := make(chan error, 1)

	go func() {
		output, err := command.CombinedOutput()
		if t.Context().Err() == nil {
			t.Logf("drain of %s, %.0f s: %v\n%s", node, time.Since(begin).Seconds(), err, output)
		}
		ended <- err
	}()

	return ended
}

// awaitMigration waits until a migration is in a phase; empty: until one has been requested.
func (w *worker) awaitMigration(t *testing.T, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	harness.Eventually(t, "a migration begins", func(ctx context.Context) (bool, error) {
		list, err := w.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(w.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) > 0 && (phase == "" || list.Items[0].Status.Phase == phase), err
	})
}

// awaitEvent waits for an Event of the driver on a Machine, whose message contains a text.
func (w *worker) awaitEvent(t *testing.T, machine, reason, text string) {
	t.Helper()
	harness.Eventually(t, reason+" of "+machine, func(ctx context.Context) (bool, error) {
		return w.hasEvent(ctx, t, machine, reason, text)
	})
}

func (w *worker) hasEvent(ctx context.Context, t *testing.T, machine, reason, text string) (bool, error) {
	t.Helper()

	events, err := w.events(ctx, machine)
	message, found := events[reason]
	if found {
		t.Log(message)
	}

	return found && strings.Contains(message, text), err
}
