package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// runControllers runs machine-controller-manager and the sidecar for the shoot until the test ends.
func (s *shoot) runControllers(t *testing.T, sidecarArgs ...string) {
	t.Helper()

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	s.controller, err = lab.StartSidecar(t.Context(), s.Shoot, sidecar, sidecarArgs...)
	require.NoError(t, err)

	t.Cleanup(func() {
		require.NoError(t, s.controller.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})
}

// killSidecar kills the sidecar and starts another.
func (s *shoot) killSidecar(t *testing.T, sidecarArgs ...string) {
	t.Helper()

	require.NoError(t, s.controller.Signal(syscall.SIGKILL))
	<-s.controller.Exited()

	var err error

	s.controller, err = lab.StartSidecar(t.Context(), s.Shoot, sidecar, sidecarArgs...)
	require.NoError(t, err)
}

// applyExample creates the objects of kubernetes/example for this shoot.
func (s *shoot) applyExample(t *testing.T) {
	t.Helper()

	s.applyExampleClasses(t)
	s.applyExampleDeployments(t)
}

func (s *shoot) applyExampleClasses(t *testing.T) {
	t.Helper()
	s.applyCredentials(t)

	for _, document := range s.manifest(t, "example/machineclasses.yaml") {
		create(t, document, s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Create)
	}
}

// applyCredentials creates the Secrets referenced by the MachineClasses.
func (s *shoot) applyCredentials(t *testing.T) {
	t.Helper()

	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider"},
		Data:       map[string][]byte{"kubeconfig": s.ProviderKubeconfig},
	}
	_, err := s.target.CoreV1().Secrets(s.Namespace).Create(t.Context(), credentials, metav1.CreateOptions{})
	require.NoError(t, err)

	for _, document := range s.manifest(t, "example/userdata.yaml") {
		create(t, document, s.target.CoreV1().Secrets(s.Namespace).Create)
	}
}

func (s *shoot) applyExampleDeployments(t *testing.T) {
	t.Helper()

	for _, document := range s.manifest(t, "example/machinedeployments.yaml") {
		create(t, document, s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).Create)
	}
}

// manifest returns the documents of a shipped file, with this shoot's names.
func (s *shoot) manifest(t *testing.T, file string) [][]byte {
	t.Helper()

	raw, err := manifests.Manifests.ReadFile(file)
	require.NoError(t, err)

	text := string(raw)
	if strings.Contains(text, "shoot--lab--demo") {
		text = replace(text, "shoot--lab--demo", s.Namespace)
	}

	var documents [][]byte
	for document := range strings.SplitSeq(text, "\n---\n") {
		documents = append(documents, []byte(document))
	}

	return documents
}

func (s *shoot) scale(t *testing.T, deployment string, replicas int) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).Patch(t.Context(), deployment, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// awaitRunning waits until exactly the wanted number of Machines exist, all Running on Ready nodes,
// and returns them by name.
func (s *shoot) awaitRunning(t *testing.T, want int) map[string]*v1alpha1.Machine {
	t.Helper()

	return s.awaitRunningWithin(t, settled, want)
}

// awaitRunningWithin is awaitRunning with a custom limit.
func (s *shoot) awaitRunningWithin(t *testing.T, limit time.Duration, want int) map[string]*v1alpha1.Machine {
	t.Helper()

	running := map[string]*v1alpha1.Machine{}

	within(t, limit, fmt.Sprintf("%d machines run", want), func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		clear(running)

		for i := range list.Items {
			if m := &list.Items[i]; m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning && m.DeletionTimestamp == nil {
				running[m.Name] = m
			}
		}

		return len(running) == want && len(list.Items) == want, nil
	})

	for name, m := range running {
		require.Equal(t, "kubevirt://"+name, m.Spec.ProviderID)
		require.Equal(t, name, m.Labels[v1alpha1.NodeLabelKey])
	}

	return running
}

// awaitEnd deletes all MachineDeployments and waits until nothing is left in either cluster.
func (s *shoot) awaitEnd(t *testing.T) {
	t.Helper()

	deployments := s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace)
	require.NoError(t, deployments.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))

	eventually(t, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 0, err
	})
	s.requireNothingLeft(t)
}

// TestMachineDeployments tests the main use case with machine-controller-manager's own controllers.
func TestMachineDeployments(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.runControllers(t)
	s.applyExample(t)

	machines := s.awaitRunning(t, 3)
	for name := range machines {
		zone := map[bool]string{true: "zone-a", false: "zone-b"}[strings.HasPrefix(name, "example-worker-z1")]
		s.requireInZone(t, name, zone)
		s.requireKnownToCloudController(t, name, zone)
		s.requireKnownToAutoscaler(t, name)
		// "Scheduled" may be missing: machine-controller-manager stops asking if
		// the Node appears first.
		s.requireEvents(t, name, "VirtualMachineCreated")
	}

	s.scale(t, "example-worker-z1", 3)
	machines = s.awaitRunning(t, 4)

	victim := ""
	for name := range machines {
		victim = name
	}

	require.NoError(t, s.mcm.MachineV1alpha1().Machines(s.Namespace).Delete(t.Context(), victim, metav1.DeleteOptions{}))
	eventually(t, "the deleted Machine is gone", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + victim})

		return err == nil && len(list.Items) == 0, err
	})
	require.NotContains(t, s.awaitRunning(t, 4), victim, "a deleted Machine is replaced")

	s.scale(t, "example-worker-z1", 1)
	s.scale(t, "example-worker-z2", 0)
	s.awaitRunning(t, 1)
	s.awaitEnd(t)
}

// requireEvents requires the driver's Events on a Machine.
func (s *shoot) requireEvents(t *testing.T, machine string, reasons ...string) {
	t.Helper()

	for _, reason := range reasons {
		eventually(t, machine+" has the Event "+reason, func(ctx context.Context) (bool, error) {
			events, err := s.target.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{
				FieldSelector: "involvedObject.kind=Machine,involvedObject.name=" + machine + ",reason=" + reason,
			})

			return err == nil && len(events.Items) > 0, err
		})
	}
}

// TestZoneWithoutRoom tests the status that cluster-autoscaler sees when a zone is full.
func TestZoneWithoutRoom(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.runControllers(t, "--unschedulable-grace=1s")
	s.applyExample(t)

	patch := []byte(`{"providerSpec":{"zone":"zone-x"}}`)
	_, err := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), "example-worker-z2", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.scale(t, "example-worker-z1", 0)
	s.scale(t, "example-worker-z2", 2)

	eventually(t, "a Machine reports the full zone", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		for i := range list.Items {
			last := list.Items[i].Status.LastOperation
			if last.ErrorCode == codes.ResourceExhausted.String() && last.Type == v1alpha1.MachineOperationCreate {
				require.Equal(t, v1alpha1.MachineStateFailed, last.State)
				require.Contains(t, last.Description, "Unschedulable: 0/")

				return true, nil
			}
		}

		return false, nil
	})

	s.awaitEnd(t)
}
