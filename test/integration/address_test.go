package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestMovedNamespaceKeepsMachines changes the kubeconfig's namespace below a Machine, deletes the Machine, and then restores the
// kubeconfig. machine-controller-manager must keep the Machine and its Node until the VirtualMachine is gone.
func TestMovedNamespaceKeepsMachines(t *testing.T) {
	t.Parallel()

	s, elsewhere := newShoot(t), newShoot(t)
	s.runControllers(t)
	s.applyCredentials(t)
	s.addPool(t, s.Name, 1, s.spec("zone-a", ephemeralRoot))

	name := theOnly(s.awaitRunning(t, 1))

	s.replaceKubeconfig(t, elsewhere.ProviderKubeconfig)
	s.scale(t, s.Name, 0)
	s.awaitEvent(t, name, "AddressChanged")

	require.NotNil(t, s.machineObject(t, name).DeletionTimestamp)
	require.Nil(t, s.vm(t, name).DeletionTimestamp)
	_, err := s.target.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "a Node without a Machine would go on to take pods")

	s.replaceKubeconfig(t, s.ProviderKubeconfig)
	s.killSidecar(t) // The next process asks at once, this one in ten minutes.
	s.awaitNoMachines(t)
	s.requireNothingLeft(t)
}

func theOnly[V any](of map[string]V) (name string) {
	for name = range of {
		return name
	}

	return ""
}

// replaceKubeconfig stores another kubeconfig in the Secret of the MachineClasses.
func (s *shoot) replaceKubeconfig(t *testing.T, kubeconfig []byte) {
	t.Helper()

	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"kubeconfig": kubeconfig}})
	require.NoError(t, err)
	_, err = s.target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// awaitEvent waits for an Event on a Machine, which must be there for as long.
func (s *shoot) awaitEvent(t *testing.T, machine, reason string) *corev1.Event {
	t.Helper()

	var found *corev1.Event

	eventually(t, machine+" has the Event "+reason, func(ctx context.Context) (bool, error) {
		if _, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Get(ctx, machine, metav1.GetOptions{}); err != nil {
			return false, fmt.Errorf("Machine %s: %w", machine, err)
		}

		events, err := s.target.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Machine,involvedObject.name=" + machine + ",reason=" + reason,
		})
		if err != nil || len(events.Items) == 0 {
			return false, err
		}

		found = &events.Items[0]

		return true, nil
	})

	return found
}

func (s *shoot) machineObject(t *testing.T, name string) *v1alpha1.Machine {
	t.Helper()

	found, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	return found
}

func (s *shoot) awaitNoMachines(t *testing.T) {
	t.Helper()

	eventually(t, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}

		return len(list.Items) == 0, err
	})
}
