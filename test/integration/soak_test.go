//go:build soak

package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSoakListOfThousands lists two thousand machines. The list must contain each, and
// none of two hundred others.
func TestSoakListOfThousands(t *testing.T) {
	const many, others = 2000, 200

	s := newShoot(t)
	s.haltedVMs(t, many, others)

	listed, err := s.newMachine("zone-a", ephemeralRoot).list(t.Context(), newDriver(settings{grace: time.Minute}))
	require.NoError(t, err)
	require.Len(t, listed, many)

	for i := range many {
		require.Contains(t, listed, fmt.Sprintf("kubevirt://m-%d", i))
	}
}

// TestSoakSlowClones lets the real machine-controller-manager create two hundred machines whose
// disks take five minutes to clone. Pending machines must not block the creation of the others, and
// all machines must run in the end. None may be seen failed.
func TestSoakSlowClones(t *testing.T) {
	s := newShoot(t)
	s.importImage(t, "image")
	s.annotate(t, "sim.lab/clone-latency", "5m")
	s.runControllers(t, "--machine-creation-timeout=20m")
	s.applyExampleClasses(t)
	s.changeClass(t, "example-worker-z1", `{"rootVolume":null}`)
	// Small enough that the zone has room for all.
	s.changeClass(t, "example-worker-z1", fmt.Sprintf(`{"cpu":{"cores":1},"memory":{"guest":"64Mi"},
		"rootVolume":{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}}`, s.ProviderNamespace))

	failures := s.failures(t)

	s.applyExampleDeployments(t)
	s.scale(t, "example-worker-z2", 0)
	s.scale(t, "example-worker-z1", 200)

	var machines, vms []time.Time

	eventually(t, "all VirtualMachines are created", func(ctx context.Context) (bool, error) {
		list, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) < 200 {
			return false, err
		}

		for i := range list.Items {
			vms = append(vms, list.Items[i].CreationTimestamp.Time)
		}

		return true, nil
	})

	all, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for i := range all.Items {
		machines = append(machines, all.Items[i].CreationTimestamp.Time)
	}

	first, last := slices.MinFunc(machines, time.Time.Compare), slices.MaxFunc(vms, time.Time.Compare)
	t.Logf("the last of 200 VirtualMachines was created %s after the first Machine", last.Sub(first))

	running := s.awaitRunningWithin(t, 20*time.Minute, 200)
	for i := range all.Items {
		require.Contains(t, running, all.Items[i].Name, "no machine is replaced")
	}

	require.Empty(t, failures(), "no machine is seen failed, neither while it is cloned nor later")

	s.scale(t, "example-worker-z1", 0)
	s.awaitImageEnd(t)
}

// TestSoakFullZoneAfterSlowClones creates machines that cannot be scheduled, which is known only
// after five minutes of cloning.
func TestSoakFullZoneAfterSlowClones(t *testing.T) {
	s := newShoot(t)
	s.importImage(t, "image")
	s.annotate(t, "sim.lab/clone-latency", "5m")
	s.requireExhaustedUntilThereIsRoom(t, fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace), 10*time.Minute)
}

// TestSoakSlowImport imports a machine's disk for a quarter of an hour. The machine must never be
// seen failed, and must not be replaced.
func TestSoakSlowImport(t *testing.T) {
	s := newShoot(t)
	s.annotate(t, "sim.lab/import-latency", "15m")
	s.runControllers(t, "--machine-creation-timeout=20m")

	failures := s.failures(t)

	s.applyExample(t)
	s.scale(t, "example-worker-z1", 1)
	s.scale(t, "example-worker-z2", 0)

	var before, after []v1alpha1.Machine

	before = s.awaitMachines(t, settled, func(m *v1alpha1.Machine) bool { return m.Spec.ProviderID != "" })
	after = s.awaitMachines(t, 20*time.Minute, func(m *v1alpha1.Machine) bool { return m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning })
	require.Equal(t, before[0].Name, after[0].Name, "it is not replaced")
	require.Empty(t, failures())
	s.awaitEnd(t)
}

// TestSoakProviderAwayForHalfAnHour makes the provider cluster unavailable for longer than
// Gardener's creation timeout.
func TestSoakProviderAwayForHalfAnHour(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	l := s.proxy(t)
	s.applyCredentials(t)
	s.runControllers(t, "--machine-creation-timeout=20m", "--machine-health-timeout=10m")

	spec := s.spec("zone-a", ephemeralRoot)
	s.addPool(t, s.Name+"-running", 2, spec)
	s.addPool(t, s.Name+"-late", 0, spec)
	s.awaitRunning(t, 2)

	before := s.identities(t)
	s.outage(t, l, s.Name+"-late", 30*time.Minute)
	s.awaitRunning(t, 3)
	require.Subset(t, s.identities(t), before, "no worker that runs is replaced")
	s.awaitEnd(t)
}

// awaitMachines waits until there is one Machine that satisfies the condition.
func (s *shoot) awaitMachines(t *testing.T, limit time.Duration, holds func(*v1alpha1.Machine) bool) []v1alpha1.Machine {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	for {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)

		if len(list.Items) == 1 && holds(&list.Items[0]) {
			return list.Items
		}

		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.NoError(t, ctx.Err())
		}
	}
}

// TestSoakGoldenImageIsImportedOnce creates ten machines of each kind.
func TestSoakGoldenImageIsImportedOnce(t *testing.T) { requireOneImport(t, 10) }

// TestSoakMachinesAtOnceMakeOneImage creates fifty machines.
func TestSoakMachinesAtOnceMakeOneImage(t *testing.T) { requireOneImageOfTwoProcesses(t, 50) }

// TestSoakRacesOfSweepAndCreation forces the races between the sweep of images and the creation of
// machines two hundred times.
func TestSoakRacesOfSweepAndCreation(t *testing.T) {
	const rounds, shoots = 200, 8

	forced := races()
	next := make(chan int)

	var running sync.WaitGroup

	for range shoots {
		s := newShoot(t)

		running.Go(func() {
			for i := range next {
				r := forced[i%len(forced)]
				t.Run(fmt.Sprintf("%03d %s", i, r.name), func(t *testing.T) { r.run(t, s) })
			}
		})
	}

	for i := range rounds {
		next <- i
	}

	close(next)
	running.Wait()
	t.Logf("%d races", rounds)
}
