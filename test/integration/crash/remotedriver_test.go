// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// virtualMachines returns the UIDs of a MachineDeployment's VirtualMachines by name.
func virtualMachines(ctx context.Context, s *harness.Shoot, deployment string) (map[string]types.UID, error) {
	list, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	found := map[string]types.UID{}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, deployment+"-") {
			found[list.Items[i].Name] = list.Items[i].UID
		}
	}

	return found, nil
}

// TestKilledDriver kills the driver while the real machine-controller-manager creates
// fifty machines through it. Afterwards all exist, none was created twice, and the
// Machines never showed a failure.
func TestKilledDriver(t *testing.T) {
	t.Parallel()

	const (
		pool          = "example-worker-z1"
		many, atLeast = 50, 10
	)

	s := harness.NewShoot(t)
	endpoint := "unix://" + harness.NewSocket(t)
	l := s.ProxyProvider(t)
	failures := s.Failures(t)

	l.KillAfter(t, "create virtualmachines", atLeast, func() *process.Process {
		first := s.StartDriver(t, endpoint, "--unschedulable-grace=10m")

		s.RunControllers(t, "--driver-endpoint="+endpoint)
		s.ApplyExampleClasses(t)
		// They cannot be scheduled, which keeps them cheap.
		s.ChangeClass(t, pool, `{"zone":"zone-x","rootVolume":null}`)
		s.ChangeClass(t, pool, `{"rootVolume":`+harness.EphemeralRoot+`}`)
		s.ApplyExampleDeployments(t)
		s.Scale(t, "example-worker-z2", 0)
		s.Scale(t, pool, many)

		return first
	})

	before, err := virtualMachines(t.Context(), s, pool)
	require.NoError(t, err)
	require.Less(t, len(before), many, "the driver must be killed before the last creation")
	s.StartDriver(t, endpoint, "--unschedulable-grace=10m")

	var after map[string]types.UID

	harness.Eventually(t, "all machines are created", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		named := 0

		for i := range list.Items {
			if list.Items[i].Spec.ProviderID == "kubevirt://"+list.Items[i].Name {
				named++
			}
		}

		after, err = virtualMachines(ctx, s, pool)

		return len(after) >= many && named == many && len(list.Items) == many, err
	})
	require.Len(t, after, many, "no machine may exist twice")

	for name, uid := range before {
		if again, still := after[name]; still { // MachineSets create surplus Machines, and delete them.
			require.Equal(t, uid, again, "%s must not be created again", name)
		}
	}

	require.Empty(t, failures(), "no Machine may fail because the driver restarts")

	s.Scale(t, pool, 0)
	s.AwaitEnd(t)
}

// TestDriverStopsInOrder stops the driver while a call waits for a machine. The next driver
// answers the repeated call.
func TestDriverStopsInOrder(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	endpoint := "unix://" + harness.NewSocket(t)
	s.Annotate(t, "sim.lab/import-latency", "20s")

	first := s.StartDriver(t, endpoint)
	d := harness.Dial(t, endpoint, insecure.NewCredentials())
	m := s.NewMachine("zone-a", harness.ImportedRoot)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	answered := make(chan error, 1)

	go func() {
		_, err := m.Initialize(t.Context(), d)
		answered <- err
	}()

	harness.Eventually(t, "the call is under way", func(ctx context.Context) (bool, error) {
		metrics, err := harness.Scrape(ctx, harness.PortOf(first.PID()))

		return strings.Contains(string(metrics), "mcm_kubevirt_driver_calls_running 1\n"), err
	})

	harness.RequireStopsInOrder(t, first)

	s.StartDriver(t, endpoint)
	require.NoError(t, <-answered, "the call was repeated")
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestDriverHoldsKubeconfigs keeps the kubeconfig with the driver: no Secret in the
// control cluster contains it.
func TestDriverHoldsKubeconfigs(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	endpoint := "unix://" + harness.NewSocket(t)
	folder := t.TempDir()
	s.StartDriver(t, endpoint, "--kubeconfig-dir="+folder)
	d := harness.Dial(t, endpoint, insecure.NewCredentials())
	m := s.NewMachine("zone-x", harness.EphemeralRoot)

	_, err := m.Create(t.Context(), d)
	require.Equal(t, codes.InvalidArgument, harness.CodeOf(err), "requests with a kubeconfig are refused")
	require.ErrorContains(t, err, "refuses those in requests; remove the key kubeconfig from the Secret")

	delete(m.Secret.Data, "kubeconfig")

	_, err = m.Create(t.Context(), d)
	require.Equal(t, codes.FailedPrecondition, harness.CodeOf(err))
	require.ErrorContains(t, err, "no kubeconfig for cluster")

	require.NoError(t, os.WriteFile(filepath.Join(folder, s.Namespace), s.ProviderKubeconfig, 0o600))

	_, err = m.Create(t.Context(), d)
	require.NoError(t, err, "a new kubeconfig is used at once")

	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://" + m.Name(): m.Name()}, listed)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}
