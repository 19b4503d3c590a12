package integration

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// controllers are machine-controller-manager and the sidecar of one shoot, which share a pod.
type controllers struct {
	manager, sidecar *process.Process
}

func (s *shoot) startControllers(t *testing.T, sidecarArgs ...string) *controllers {
	t.Helper()

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	controller, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar, sidecarArgs...)
	require.NoError(t, err)

	started := &controllers{manager: manager, sidecar: controller}
	t.Cleanup(func() {
		require.NoError(t, controller.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	return started
}

// terminate stops the pod as a kubelet does: SIGTERM, and SIGKILL after the
// 5 s granted by Gardener.
func (c *controllers) terminate(t *testing.T) {
	t.Helper()

	const grace = 5 * time.Second

	limited, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()

	require.NoError(t, c.sidecar.Signal(syscall.SIGTERM))

	select {
	case <-c.sidecar.Exited():
	case <-limited.Done():
		require.NoError(t, c.sidecar.Signal(syscall.SIGKILL))
	}

	require.NoError(t, c.manager.Stop(t.Context()))
}

// killSidecar kills the sidecar with SIGKILL.
func (c *controllers) killSidecar(t *testing.T) {
	t.Helper()
	require.NoError(t, c.sidecar.Signal(syscall.SIGKILL))
	<-c.sidecar.Exited()
}

// deleteShoot deletes a shoot's workers as Gardener does
// (extensions/pkg/controller/worker/genericactuator/actuator_delete.go): it deletes the
// MachineDeployments, the MachineClasses and their Secrets, waits until they are gone and the
// credentials are released, and then removes the pod at once.
func (s *shoot) deleteShoot(t *testing.T, pod *controllers) {
	t.Helper()

	s.deleteWorkers(t)
	s.awaitWorkersGone(t)
	pod.terminate(t)
}

func (s *shoot) deleteWorkers(t *testing.T) {
	t.Helper()

	machines := s.mcm.MachineV1alpha1()
	all, one := metav1.ListOptions{}, metav1.DeleteOptions{}

	require.NoError(t, machines.MachineDeployments(s.Namespace).DeleteCollection(t.Context(), one, all))
	require.NoError(t, machines.MachineClasses(s.Namespace).DeleteCollection(t.Context(), one, all))
	require.NoError(t, s.target.CoreV1().Secrets(s.Namespace).Delete(t.Context(), "example-worker-userdata", one))
}

func (s *shoot) awaitWorkersGone(t *testing.T) {
	t.Helper()

	eventually(t, "machines and classes are gone, and the credentials released", func(ctx context.Context) (bool, error) {
		machines, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(machines.Items) > 0 {
			return false, err
		}

		classes, err := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(classes.Items) > 0 {
			return false, err
		}

		credentials, err := s.target.CoreV1().Secrets(s.Namespace).Get(ctx, "cloudprovider", metav1.GetOptions{})

		return err == nil && len(credentials.Finalizers) == 0, err
	})
}

// requireClean waits until the provider cluster is empty. No controller is
// left that could clean up.
func (s *shoot) requireClean(t *testing.T) {
	t.Helper()

	eventually(t, "nothing is left on the provider cluster", func(ctx context.Context) (bool, error) {
		left, err := s.left(ctx)

		return len(left) == 0, err
	})
}

// TestGardenerDeletesTheShoot checks that nothing is left behind, in any state of the shoot.
func TestGardenerDeletesTheShoot(t *testing.T) {
	t.Parallel()

	t.Run("WithMachines", func(t *testing.T) {
		t.Parallel()

		s := newShoot(t)
		pod := s.startControllers(t)
		s.applyExample(t)
		s.awaitRunning(t, 3)
		s.awaitOneImage(t)
		s.deleteShoot(t, pod)
		s.requireClean(t)
	})

	t.Run("WhileImporting", func(t *testing.T) {
		t.Parallel()

		s := newShoot(t)
		s.annotate(t, "sim.lab/import-latency", "10m")
		pod := s.startControllers(t)
		s.applyExample(t)
		eventually(t, "machines wait for the image", func(ctx context.Context) (bool, error) {
			vms, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

			return err == nil && len(vms.Items) == 3, err
		})
		s.deleteShoot(t, pod)
		s.requireClean(t)
	})

	t.Run("OverGRPC", func(t *testing.T) {
		t.Parallel()

		s, endpoint := newShoot(t), "unix://"+newSocket(t)
		s.startDriver(t, endpoint)
		pod := s.startControllers(t, "--driver-endpoint="+endpoint)
		s.applyExample(t)
		s.awaitRunning(t, 3)
		s.awaitOneImage(t)
		s.deleteShoot(t, pod)
		s.requireClean(t)
	})

	// No request tells that the MachineClasses are deleted. Gardener's extension deletes images itself.
	t.Run("ScaledToZero", func(t *testing.T) {
		t.Parallel()

		s := newShoot(t)
		pod := s.startControllers(t)
		s.applyExample(t)
		s.awaitRunning(t, 3)
		s.scale(t, "example-worker-z1", 0)
		s.scale(t, "example-worker-z2", 0)
		s.awaitRunning(t, 0)
		s.deleteShoot(t, pod)
		s.awaitOneImage(t)
		s.deleteImages(t, s.Namespace)
		s.requireClean(t)
	})
}
