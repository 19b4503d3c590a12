// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// deleteShoot deletes a shoot's workers as Gardener does
// (extensions/pkg/controller/worker/genericactuator/actuator_delete.go): it deletes the
// MachineDeployments, the MachineClasses and their Secrets, waits until they are gone and the
// credentials are released, and then removes the pod at once.
func deleteShoot(t *testing.T, s *harness.Shoot, pod *harness.Controllers) {
	t.Helper()

	deleteWorkers(t, s)
	awaitWorkersGone(t, s)
	pod.Terminate(t)
}

func deleteWorkers(t *testing.T, s *harness.Shoot) {
	t.Helper()

	machines := s.MCM.MachineV1alpha1()
	all := metav1.ListOptions{}
	one := metav1.DeleteOptions{}

	require.NoError(t, machines.MachineDeployments(s.Namespace).DeleteCollection(t.Context(), one, all))
	require.NoError(t, machines.MachineClasses(s.Namespace).DeleteCollection(t.Context(), one, all))
	require.NoError(t, s.Target.CoreV1().Secrets(s.Namespace).Delete(t.Context(), "example-worker-userdata", one))
}

func awaitWorkersGone(t *testing.T, s *harness.Shoot) {
	t.Helper()

	harness.Eventually(t, "machines and classes are gone, and the credentials released", func(ctx context.Context) (bool, error) {
		machines, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(machines.Items) > 0 {
			return false, err
		}

		classes, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(classes.Items) > 0 {
			return false, err
		}

		credentials, err := s.Target.CoreV1().Secrets(s.Namespace).Get(ctx, "cloudprovider", metav1.GetOptions{})

		return err == nil && len(credentials.Finalizers) == 0, err
	})
}

// TestGardenerDeletesTheShoot checks that nothing is left behind, in any state of the shoot.
func TestGardenerDeletesTheShoot(t *testing.T) {
	t.Parallel()

	t.Run("WithMachines", func(t *testing.T) {
		t.Parallel()

		s := harness.NewShoot(t)
		pod := s.StartControllers(t)
		s.ApplyExample(t)
		s.AwaitRunning(t, 3)
		s.AwaitOneImage(t)
		deleteShoot(t, s, pod)
		s.RequireClean(t)
	})

	t.Run("WhileImporting", func(t *testing.T) {
		t.Parallel()

		s := harness.NewShoot(t)
		s.Annotate(t, "sim.lab/import-latency", "10m")
		pod := s.StartControllers(t)
		s.ApplyExample(t)
		harness.Eventually(t, "machines wait for the image", func(ctx context.Context) (bool, error) {
			vms, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

			return err == nil && len(vms.Items) == 3, err
		})
		deleteShoot(t, s, pod)
		s.RequireClean(t)
	})

	t.Run("OverGRPC", func(t *testing.T) {
		t.Parallel()

		s := harness.NewShoot(t)
		endpoint := "unix://" + harness.NewSocket(t)
		s.StartDriver(t, endpoint)
		pod := s.StartControllers(t, "--driver-endpoint="+endpoint)
		s.ApplyExample(t)
		s.AwaitRunning(t, 3)
		s.AwaitOneImage(t)
		deleteShoot(t, s, pod)
		s.RequireClean(t)
	})

	// No request informs the driver of the deletion of the MachineClasses. Gardener's extension
	// deletes the images.
	t.Run("ScaledToZero", func(t *testing.T) {
		t.Parallel()

		s := harness.NewShoot(t)
		pod := s.StartControllers(t)
		s.ApplyExample(t)
		s.AwaitRunning(t, 3)
		s.Scale(t, "example-worker-z1", 0)
		s.Scale(t, "example-worker-z2", 0)
		s.AwaitRunning(t, 0)
		deleteShoot(t, s, pod)
		s.AwaitOneImage(t)
		s.DeleteImages(t, s.Namespace)
		s.RequireClean(t)
	})
}
