package integration

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// startDriver runs the real mcm-kubevirt serve.
func (s *shoot) startDriver(t *testing.T, endpoint string, args ...string) *process.Process {
	t.Helper()

	p, err := lab.StartDriver(t.Context(), s.Shoot, remoteDriver, endpoint, args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) })

	return p
}

// virtualMachines returns the UIDs of a MachineDeployment's VirtualMachines by name.
func (s *shoot) virtualMachines(ctx context.Context, deployment string) (map[string]types.UID, error) {
	list, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
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

	s, endpoint := newShoot(t), "unix://"+newSocket(t)
	l, failures := s.proxy(t), s.failures(t)

	l.killAfter(t, "create virtualmachines", atLeast, func() *process.Process {
		first := s.startDriver(t, endpoint, "--unschedulable-grace=10m")

		s.runControllers(t, "--driver-endpoint="+endpoint)
		s.applyExampleClasses(t)
		// They cannot be scheduled, which keeps them cheap.
		s.changeClass(t, pool, `{"zone":"zone-x","rootVolume":null}`)
		s.changeClass(t, pool, `{"rootVolume":`+ephemeralRoot+`}`)
		s.applyExampleDeployments(t)
		s.scale(t, "example-worker-z2", 0)
		s.scale(t, pool, many)

		return first
	})

	before, err := s.virtualMachines(t.Context(), pool)
	require.NoError(t, err)
	require.Less(t, len(before), many, "it was in the middle")
	s.startDriver(t, endpoint, "--unschedulable-grace=10m")

	var after map[string]types.UID

	eventually(t, "all machines are made", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		named := 0

		for i := range list.Items {
			if list.Items[i].Spec.ProviderID == "kubevirt://"+list.Items[i].Name {
				named++
			}
		}

		after, err = s.virtualMachines(ctx, pool)

		return len(after) >= many && named == many && len(list.Items) == many, err
	})
	require.Len(t, after, many, "none is there twice")

	for name, uid := range before {
		if again, still := after[name]; still { // MachineSets create surplus Machines, and delete them.
			require.Equal(t, uid, again, "%s was made before, and once", name)
		}
	}

	require.Empty(t, failures(), "a driver that restarts is nobody's failure")

	s.scale(t, pool, 0)
	s.awaitEnd(t)
}

// TestDriverStopsInOrder stops the driver while a call waits for a machine. The next driver
// answers the repeated call.
func TestDriverStopsInOrder(t *testing.T) {
	t.Parallel()

	s, endpoint := newShoot(t), "unix://"+newSocket(t)
	s.annotate(t, "sim.lab/import-latency", "20s")

	first := s.startDriver(t, endpoint)
	d := dial(t, endpoint, insecure.NewCredentials())
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	answered := make(chan error, 1)

	go func() {
		_, err := m.initialize(t.Context(), d)
		answered <- err
	}()

	eventually(t, "the call is under way", func(ctx context.Context) (bool, error) {
		metrics, err := scrape(ctx, portOf(first.PID()))

		return strings.Contains(string(metrics), "mcm_kubevirt_driver_calls_running 1\n"), err
	})

	requireStopsInOrder(t, first)

	s.startDriver(t, endpoint)
	require.NoError(t, <-answered, "the call was repeated")
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// TestDriverHoldsKubeconfigs keeps the kubeconfig with the driver: no Secret in the
// control cluster contains it.
func TestDriverHoldsKubeconfigs(t *testing.T) {
	t.Parallel()

	s, endpoint, folder := newShoot(t), "unix://"+newSocket(t), t.TempDir()
	s.startDriver(t, endpoint, "--kubeconfig-dir="+folder)
	d := dial(t, endpoint, insecure.NewCredentials())
	m := s.newMachine("zone-x", ephemeralRoot)

	_, err := m.create(t.Context(), d)
	require.Equal(t, codes.InvalidArgument, codeOf(err), "a request must not bring one")
	require.ErrorContains(t, err, "refuses those in requests; remove the key kubeconfig from the Secret")

	delete(m.secret.Data, "kubeconfig")

	_, err = m.create(t.Context(), d)
	require.Equal(t, codes.FailedPrecondition, codeOf(err))
	require.ErrorContains(t, err, "no kubeconfig for cluster")

	require.NoError(t, os.WriteFile(filepath.Join(folder, s.Namespace), s.ProviderKubeconfig, 0o600))

	_, err = m.create(t.Context(), d)
	require.NoError(t, err, "what is added counts at once")

	listed, err := m.list(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://" + m.name(): m.name()}, listed)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}
