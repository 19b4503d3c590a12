// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestMachineDeployments tests the main use case with machine-controller-manager's own controllers.
func TestMachineDeployments(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyExample(t)

	machines := s.AwaitRunning(t, 3)
	for name := range machines {
		zone := map[bool]string{true: "zone-a", false: "zone-b"}[strings.HasPrefix(name, "example-worker-z1")]
		s.RequireInZone(t, name, zone)
		requireKnownToCloudController(t, s, name, zone)
		requireKnownToAutoscaler(t, s, name)
		// "Scheduled" may be missing: machine-controller-manager no longer calls the
		// driver if the Node appears first.
		s.RequireEvents(t, name, "VirtualMachineCreated")
	}

	s.Scale(t, "example-worker-z1", 3)
	machines = s.AwaitRunning(t, 4)

	victim := ""
	for name := range machines {
		victim = name
	}

	require.NoError(t, s.MCM.MachineV1alpha1().Machines(s.Namespace).Delete(t.Context(), victim, metav1.DeleteOptions{}))
	harness.Eventually(t, "the deleted Machine is gone", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + victim})

		return err == nil && len(list.Items) == 0, err
	})
	require.NotContains(t, s.AwaitRunning(t, 4), victim, "a deleted Machine is replaced")

	s.Scale(t, "example-worker-z1", 1)
	s.Scale(t, "example-worker-z2", 0)
	s.AwaitRunning(t, 1)
	s.AwaitEnd(t)
}

// TestZoneWithoutRoom tests the status that cluster-autoscaler sees when a zone is full.
func TestZoneWithoutRoom(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t, "--unschedulable-grace=1s")
	s.ApplyExample(t)

	patch := []byte(`{"providerSpec":{"zone":"zone-x"}}`)
	_, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), "example-worker-z2", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.Scale(t, "example-worker-z1", 0)
	s.Scale(t, "example-worker-z2", 2)

	harness.Eventually(t, "a Machine reports the full zone", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		for i := range list.Items {
			last := list.Items[i].Status.LastOperation
			if last.ErrorCode == codes.ResourceExhausted.String() && last.Type == v1alpha1.MachineOperationCreate && !harness.IsImporterStarting(last.Description) {
				require.Equal(t, v1alpha1.MachineStateFailed, last.State)
				require.Contains(t, last.Description, "Unschedulable: 0/")

				return true, nil
			}
		}

		return false, nil
	})

	s.AwaitEnd(t)
}
