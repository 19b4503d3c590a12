package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

			s := newShoot(t)
			s.importImage(t, "image")
			s.requireExhaustedUntilThereIsRoom(t, fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
				"storage":{"storageClassName":%q,"resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace, class), settled)
		})
	}
}

// requireExhaustedUntilThereIsRoom runs machines with this root volume, whose
// creation takes up to limit.
func (s *shoot) requireExhaustedUntilThereIsRoom(t *testing.T, rootVolume string, limit time.Duration) {
	t.Helper()

	room := "room.example.com/" + s.Name

	s.runControllers(t, "--unschedulable-grace=2s", "--machine-creation-timeout=20m")
	s.applyExampleClasses(t)
	s.changeClass(t, "example-worker-z1", `{"rootVolume":null}`)
	s.changeClass(t, "example-worker-z1", fmt.Sprintf(
		`{"rootVolume":%s,"virtualMachineTemplate":{"spec":{"template":{"spec":{"nodeSelector":{%q:"yes"}}}}}}`, rootVolume, room))
	s.applyExampleDeployments(t)
	s.scale(t, "example-worker-z2", 0)

	s.awaitExhausted(t, limit)
	s.requireStaysExhausted(t)
	s.makeRoom(t, room)
	s.awaitRunning(t, 2)
	s.awaitImageEnd(t)
}

func (s *shoot) awaitExhausted(t *testing.T, limit time.Duration) {
	t.Helper()

	within(t, limit, "the Machines report that there is no room", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			return false, err
		}

		return exhausted(&list.Items[0]) && exhausted(&list.Items[1]), nil
	})
	s.logDelay(t)
}

// logDelay logs the delay between the scheduler's decision and the Machines' report.
func (s *shoot) logDelay(t *testing.T) {
	t.Helper()

	instances, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
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
func (s *shoot) requireStaysExhausted(t *testing.T) {
	t.Helper()

	stream, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Watch(t.Context(), metav1.ListOptions{})
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
				require.True(t, exhausted(m), "%s: %s", m.Name, m.Status.LastOperation.Description)
			}
		}
	}
}

// makeRoom labels a host so that it matches the machines' node selector.
func (s *shoot) makeRoom(t *testing.T, label string) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, label)
	_, err := s.kube.CoreV1().Nodes().Patch(t.Context(), "provider-a-0", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
