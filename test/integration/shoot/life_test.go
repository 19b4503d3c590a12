// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// shootLife is a shoot that goes through all of Gardener's operations in sequence. Its machines
// share a provider namespace with those of a quiet shoot.
type shootLife struct {
	*harness.Shoot

	line  *harness.Line // between its sidecars and the provider cluster
	quiet *quietShoot
	pod   *harness.Controllers
	// states are the states of its Machines, in all seeds.
	states *harness.MachineStates
	// images are its golden images, which only the last stage may delete.
	images map[string]types.UID
	// awake are the UIDs of its machines' objects after the wake-up, and deletions is the number of
	// deletions requested by its sidecars until then.
	awake     map[string]types.UID
	deletions int
}

// TestShootLife runs a shoot through its whole life with machine-controller-manager's own
// controllers and the sidecar's binary. After each stage the other shoot in its provider
// namespace must be unchanged.
func TestShootLife(t *testing.T) {
	t.Parallel()

	l := newShootLife(t)
	l.stage(t, "Creation", l.create)
	l.together(t, map[string]func(*testing.T){
		"RollingUpdate":         l.updateRolling,
		"InPlaceUpdate":         l.updateInPlace,
		"VirtualMachineDeleted": l.deleteVirtualMachine,
		"NeverJoins":            l.replaceWhatNeverJoins,
		"NodeUnhealthy":         l.replaceUnhealthy,
		"Preservation":          l.preserve,
	})
	l.stage(t, "Hibernation", l.hibernate)

	l.pod = l.StartControllers(t, lifeArgs()...)
	l.stage(t, "WakeUp", l.wakeUp)
	l.stage(t, "ProviderOutage", l.outliveProvider)
	l.stage(t, "EmptyListsOfMachines", l.restartBesideEmptyLists)

	l.pod.Sidecar = l.StartSidecar(t, lifeArgs()...)
	seed := l.newSeed(t)
	l.stage(t, "ControlPlaneMigration", func(t *testing.T) { t.Helper(); l.migrateTo(t, seed) })

	next := seed.StartControllers(t, lifeArgs()...)
	l.stage(t, "ControlPlaneMigrated", func(t *testing.T) { t.Helper(); l.runOn(t, seed) })
	l.stage(t, "Deletion", func(t *testing.T) { t.Helper(); l.delete(t, seed, next) })
}

// lifeArgs make the sidecar check for orphans frequently. Timeouts shorter than Gardener's are set
// per pool: the nodes of all shoots of the lab are in one cluster, and a sidecar disowns nodes that
// are older than its creation timeout.
func lifeArgs() []string {
	return []string{"--machine-safety-orphan-vms-period=15s", "--machine-creation-timeout=20m"}
}

func newShootLife(t *testing.T) *shootLife {
	t.Helper()

	l := &shootLife{Shoot: harness.NewShoot(t), states: &harness.MachineStates{}}
	l.quiet = newQuietShoot(t, l.Shoot)
	l.line = l.ProxyProvider(t)
	l.states.Observe(t, l.Shoot)
	l.ApplyCredentials(t)
	l.pod = l.StartControllers(t, lifeArgs()...)

	return l
}

// stage runs one stage and stops the test if it fails.
func (l *shootLife) stage(t *testing.T, name string, do func(*testing.T)) {
	t.Helper()
	require.True(t, l.runStage(t, name, do), "the next stages depend on this one")
}

// together runs the stages concurrently. Each has its own pool.
func (l *shootLife) together(t *testing.T, stages map[string]func(*testing.T)) {
	t.Helper()

	var running sync.WaitGroup

	for name, do := range stages {
		// With t.Parallel they would wait for all other tests of the package.
		running.Go(func() { l.runStage(t, name, do) })
	}

	running.Wait()
	require.False(t, t.Failed(), "the next stages depend on this one")
}

// runStage runs a stage and logs its duration. It then checks that the other shoot is
// unaffected and that Machines failed only in pools where this is expected. It reports
// whether the stage succeeded.
func (l *shootLife) runStage(t *testing.T, name string, do func(*testing.T)) bool {
	t.Helper()

	return t.Run(name, func(t *testing.T) {
		began := time.Now()

		do(t)
		t.Logf("%s took %.0f s", name, time.Since(began).Seconds())
		l.quiet.requireUntouched(t, l.line)
		require.Empty(t, l.states.Failures(l.pool("late"), l.pool("sick"), l.pool("kept")))
	})
}

// pool returns the name of a worker pool of the shoot, which is unique in the lab.
func (l *shootLife) pool(name string) string { return l.Name + "-" + name }

// create creates the pools for all stages.
func (l *shootLife) create(t *testing.T) {
	t.Helper()

	plain := l.Spec("zone-a", harness.EphemeralRoot)

	l.AddPool(t, l.pool("rolling"), 1, l.Spec("zone-a", harness.ImportedRoot))
	l.AddPool(t, l.pool("inplace"), 1, plain, inPlace)
	l.AddPool(t, l.pool("deleted"), 1, plain)
	l.AddPool(t, l.pool("sick"), 1, plain, impatientWithSick)
	l.AddPool(t, l.pool("kept"), 1, plain, impatientWithSick)
	l.AwaitRunning(t, 5)
	l.images = l.AwaitOneImage(t)
}

// hibernate scales all pools to zero and stops the controllers.
func (l *shootLife) hibernate(t *testing.T) {
	t.Helper()

	for _, pool := range []string{"rolling", "inplace", "deleted", "late", "sick", "kept"} {
		l.Scale(t, l.pool(pool), 0)
	}

	l.AwaitRunning(t, 0)
	l.pod.Terminate(t)
	require.Equal(t, l.images, l.AwaitOneImage(t), "the image must not be deleted")
	require.Empty(t, identities(t, l.Shoot), "no machine is left")
}

// wakeUp scales pools up again, with fresh controllers that know only the state of the clusters.
func (l *shootLife) wakeUp(t *testing.T) {
	t.Helper()
	l.Scale(t, l.pool("rolling"), 1)
	l.Scale(t, l.pool("inplace"), 2)
	l.AwaitRunning(t, 3)
	require.Equal(t, l.images, l.AwaitOneImage(t), "the image must not be imported again")
	l.awake = identities(t, l.Shoot)
	l.deletions = l.line.Asked("delete virtualmachines")
}

// outliveProvider makes the provider cluster unavailable for longer than
// machine-controller-manager's creation timeout.
func (l *shootLife) outliveProvider(t *testing.T) {
	t.Helper()
	giveUpAfter(t, l.Shoot, l.pool("late"), &metav1.Duration{Duration: tooLate})
	outage(t, l.Shoot, l.line, l.pool("late"), 0)
	l.AwaitRunning(t, 4)

	now := identities(t, l.Shoot)
	require.Subset(t, now, l.awake, "no running worker may be replaced")
	l.awake = now
	l.deletions = l.line.Asked("delete virtualmachines")
}

// requireAwake requires that all machines of the wake-up exist and that none was asked to be
// deleted, since a machine in deletion may appear to be running for a while.
func (l *shootLife) requireAwake(t *testing.T) {
	t.Helper()
	require.Equal(t, l.awake, identities(t, l.Shoot), "no machine may be lost or duplicated")
	require.Equal(t, l.deletions, l.line.Asked("delete virtualmachines"))
}

// awaitOrphans waits until each machine of the wake-up was treated as an orphan. It skips the given
// number of earlier requests.
func (l *shootLife) awaitOrphans(t *testing.T, looked int) {
	t.Helper()

	harness.Eventually(t, "each machine was treated as an orphan", func(context.Context) (bool, error) {
		orphans := l.line.Named("get virtualmachines", looked)

		for object := range l.awake {
			_, name, _ := strings.Cut(object, " ")
			if !slices.Contains(orphans, name) {
				return false, nil
			}
		}

		return true, nil
	})
}

// restartBesideEmptyLists starts sidecars while the control cluster returns no Machines, as an API
// server may briefly do after an outage. All machines appear as orphans to them. It leaves the
// shoot without a sidecar.
func (l *shootLife) restartBesideEmptyLists(t *testing.T) {
	t.Helper()

	direct := l.SidecarKubeconfig
	control := l.ProxyControl(t)
	control.Empty.Store(true)
	l.pod.KillSidecar(t)

	for range 2 {
		looked := l.line.Asked("get virtualmachines")
		flapping := &harness.Controllers{Sidecar: l.StartSidecar(t, lifeArgs()...)}

		l.awaitOrphans(t, looked)
		flapping.KillSidecar(t)
	}

	l.SidecarKubeconfig = direct
	l.requireAwake(t)
}

// delete deletes the shoot as Gardener does, and requires that only the quiet
// shoot's objects are left.
func (l *shootLife) delete(t *testing.T, seed *harness.Shoot, pod *harness.Controllers) {
	t.Helper()
	deleteShoot(t, seed, pod)

	var left []string

	harness.Eventually(t, "nothing is left of the shoot", func(ctx context.Context) (bool, error) {
		var err error

		left, err = l.Leftovers(ctx)

		return len(left) <= len(l.quiet.all), err
	})
	require.ElementsMatch(t, l.quiet.all, left)
}

// identities returns the UIDs of the shoot's VirtualMachines and their instances, none of
// which may be in deletion.
func identities(t *testing.T, s *harness.Shoot) map[string]types.UID {
	t.Helper()

	uids := map[string]types.UID{}
	ours := metav1.ListOptions{LabelSelector: fmt.Sprintf("mcm.gardener.cloud/cluster=%s,mcm.gardener.cloud/role=node", s.Namespace)}

	vms, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(t.Context(), ours)
	require.NoError(t, err)

	for i := range vms.Items {
		require.Nil(t, vms.Items[i].DeletionTimestamp, vms.Items[i].Name)
		uids["VirtualMachine "+vms.Items[i].Name] = vms.Items[i].UID
	}

	instances, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(t.Context(), ours)
	require.NoError(t, err)

	for i := range instances.Items {
		require.Nil(t, instances.Items[i].DeletionTimestamp, instances.Items[i].Name)
		uids["VirtualMachineInstance "+instances.Items[i].Name] = instances.Items[i].UID
	}

	return uids
}
