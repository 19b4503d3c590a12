// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestFullZoneUntilThereIsRoom lets the real machine-controller-manager create a machine that
// fits on no host, with late and with immediate binding of its disk. ResourceExhausted is
// reported and stays, so that cluster-autoscaler tries other pools; when there is room, the
// machine runs without intervention.
func TestFullZoneUntilThereIsRoom(t *testing.T) {
	t.Parallel()

	for _, class := range []string{"wait", "immediate"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			s.ImportImage(t, "image")
			requireExhaustedUntilThereIsRoom(t, s, fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
				"storage":{"storageClassName":%q,"resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace, class), harness.Settled)
		})
	}
}

// requireExhaustedUntilThereIsRoom runs machines with this root volume, whose
// creation takes up to limit.
func requireExhaustedUntilThereIsRoom(t *testing.T, s *harness.Shoot, rootVolume string, limit time.Duration) {
	t.Helper()

	room := "room.example.com/" + s.Name

	s.RunControllers(t, "--unschedulable-grace=2s", "--machine-creation-timeout=20m")
	s.ApplyExampleClasses(t)
	s.ChangeClass(t, "example-worker-z1", `{"rootVolume":null}`)
	s.ChangeClass(t, "example-worker-z1", fmt.Sprintf(
		`{"rootVolume":%s,"virtualMachineTemplate":{"spec":{"template":{"spec":{"nodeSelector":{%q:"yes"}}}}}}`, rootVolume, room))
	s.ApplyExampleDeployments(t)
	s.Scale(t, "example-worker-z2", 0)

	awaitExhausted(t, s, limit)
	requireStaysExhausted(t, s)
	s.MakeRoom(t, room)
	s.AwaitRunning(t, 2)
	s.AwaitImageEnd(t)
}

func awaitExhausted(t *testing.T, s *harness.Shoot, limit time.Duration) {
	t.Helper()

	harness.Within(t, limit, "the Machines report that there is no room", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			return false, err
		}

		return harness.Exhausted(&list.Items[0]) && harness.Exhausted(&list.Items[1]), nil
	})
	logDelay(t, s)
}

// logDelay logs the delay between the scheduler's decision and the Machines' report.
func logDelay(t *testing.T, s *harness.Shoot) {
	t.Helper()

	instances, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for i := range instances.Items {
		for _, c := range instances.Items[i].Status.Conditions {
			if string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse {
				t.Logf("%s: seen %s after its pod was unschedulable", instances.Items[i].Name, time.Since(c.LastTransitionTime.Time).Round(time.Second))
			}
		}
	}
}

// requireStaysExhausted checks the report during two passes of machine-controller-manager.
func requireStaysExhausted(t *testing.T, s *harness.Shoot) {
	t.Helper()

	stream, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	defer stream.Stop()

	const twoPasses = 12 * time.Second

	over := time.NewTimer(twoPasses)
	defer over.Stop()

	for {
		select {
		case <-over.C:
			return
		case event := <-stream.ResultChan():
			if m, ok := event.Object.(*v1alpha1.Machine); ok {
				require.True(t, harness.Exhausted(m), "%s: %s", m.Name, m.Status.LastOperation.Description)
			}
		}
	}
}
