// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package shoot

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestSoakSlowClones lets the real machine-controller-manager create two hundred machines whose
// disks take five minutes to clone. Pending machines must not block the creation of the others, and
// all machines must run in the end. None may be seen failed.
func TestSoakSlowClones(t *testing.T) {
	s := harness.NewShoot(t)
	s.ImportImage(t, "image")
	s.Annotate(t, "sim.lab/clone-latency", "5m")
	s.RunControllers(t, "--machine-creation-timeout=20m")
	s.ApplyExampleClasses(t)
	s.ChangeClass(t, "example-worker-z1", `{"rootVolume":null}`)
	// The machines are small, so that the zone has room for all of them.
	s.ChangeClass(t, "example-worker-z1", fmt.Sprintf(`{"cpu":{"cores":1},"memory":{"guest":"64Mi"},
		"rootVolume":{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}}`, s.ProviderNamespace))

	failures := s.Failures(t)

	s.ApplyExampleDeployments(t)
	s.Scale(t, "example-worker-z2", 0)
	s.Scale(t, "example-worker-z1", 200)

	var machines, vms []time.Time

	harness.Eventually(t, "all VirtualMachines are created", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) < 200 {
			return false, err
		}

		for i := range list.Items {
			vms = append(vms, list.Items[i].CreationTimestamp.Time)
		}

		return true, nil
	})

	all, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for i := range all.Items {
		machines = append(machines, all.Items[i].CreationTimestamp.Time)
	}

	first := slices.MinFunc(machines, time.Time.Compare)
	last := slices.MaxFunc(vms, time.Time.Compare)
	t.Logf("the last of 200 VirtualMachines was created %s after the first Machine", last.Sub(first))

	running := s.AwaitRunning(t, 200)
	for i := range all.Items {
		require.Contains(t, running, all.Items[i].Name, "no machine is replaced")
	}

	require.Empty(t, failures(), "no machine is seen failed, neither while it is cloned nor later")

	s.Scale(t, "example-worker-z1", 0)
	s.AwaitImageEnd(t)
}

// TestSoakFullZoneAfterSlowClones creates machines that cannot be scheduled, which is known only
// after five minutes of cloning.
func TestSoakFullZoneAfterSlowClones(t *testing.T) {
	s := harness.NewShoot(t)
	s.ImportImage(t, "image")
	s.Annotate(t, "sim.lab/clone-latency", "5m")
	requireExhaustedUntilThereIsRoom(t, s, fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace), 10*time.Minute)
}

// TestSoakSlowImport imports a machine's disk for a quarter of an hour. The machine must never be
// seen failed, and must not be replaced.
func TestSoakSlowImport(t *testing.T) {
	s := harness.NewShoot(t)
	s.Annotate(t, "sim.lab/import-latency", "15m")
	s.RunControllers(t, "--machine-creation-timeout=20m")

	failures := s.Failures(t)

	s.ApplyExample(t)
	s.Scale(t, "example-worker-z1", 1)
	s.Scale(t, "example-worker-z2", 0)

	var before, after []v1alpha1.Machine

	before = awaitMachines(t, s, harness.Settled, func(m *v1alpha1.Machine) bool { return m.Spec.ProviderID != "" })
	after = awaitMachines(t, s, 20*time.Minute, func(m *v1alpha1.Machine) bool { return m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning })
	require.Equal(t, before[0].Name, after[0].Name, "it is not replaced")
	require.Empty(t, failures())
	s.AwaitEnd(t)
}

// TestSoakProviderAwayForHalfAnHour makes the provider cluster unavailable for longer than
// Gardener's creation timeout.
func TestSoakProviderAwayForHalfAnHour(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)
	s.ApplyCredentials(t)
	s.RunControllers(t, "--machine-creation-timeout=20m", "--machine-health-timeout=10m")

	spec := s.Spec("zone-a", harness.EphemeralRoot)
	s.AddPool(t, s.Name+"-running", 2, spec)
	s.AddPool(t, s.Name+"-late", 0, spec)
	s.AwaitRunning(t, 2)

	before := identities(t, s)
	outage(t, s, l, s.Name+"-late", 30*time.Minute)
	s.AwaitRunning(t, 3)
	require.Subset(t, identities(t, s), before, "no running worker may be replaced")
	s.AwaitEnd(t)
}

// awaitMachines waits until there is one Machine that satisfies the condition.
func awaitMachines(t *testing.T, s *harness.Shoot, limit time.Duration, holds func(*v1alpha1.Machine) bool) []v1alpha1.Machine {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	for {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
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
