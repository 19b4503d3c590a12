package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestBlockedDeletionNamesWhatBlocks(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-x", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	s.setFinalizers(t, m.name(), "test.example.com/hold")

	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()

	err = m.remove(short, d)
	require.Equal(t, codes.DeadlineExceeded, codeOf(err))
	require.ErrorContains(t, err, "test.example.com/hold")

	s.setFinalizers(t, m.name())
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func (s *shoot) setFinalizers(t *testing.T, name string, finalizers ...string) {
	t.Helper()

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	require.NoError(t, err)
	_, err = s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestOrphansAreSeenTwice(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	s, d := newShoot(t), newDriver(settings{grace: time.Minute, clock: clock})
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	m.machine.UID = ""
	for range 3 {
		require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "the first sighting, and those soon after, only mark")
		require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
		clock.Step(3 * time.Minute)
	}

	clock.Step(25 * time.Hour)
	require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "sightings that far apart are no pair")
	clock.Step(11 * time.Minute)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func TestMachineOfAnEarlierLifeIsInTheWay(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	s.setFinalizers(t, m.name(), "test.example.com/hold")
	require.NoError(t, vms.Delete(t.Context(), m.name(), metav1.DeleteOptions{}))

	m.machine.UID = freshUID()
	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.Aborted, codeOf(err))
	_, err = m.create(t.Context(), d)
	require.Equal(t, codes.Aborted, codeOf(err))

	s.setFinalizers(t, m.name())
	eventually(t, "the earlier machine is gone", func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)

		return codeOf(err) == codes.NotFound, nil
	})

	_, err = m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}
