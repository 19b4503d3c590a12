package integration

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestBlockedDeletionNamesWhatBlocks(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, deleteWait: 3 * time.Second})
	m := s.newMachine("zone-x", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	s.requireBlocked(t, m, d)
	s.setFinalizers(t, m.name())
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// requireBlocked blocks the deletion of the VirtualMachine with a finalizer, and
// requires that DeleteMachine names it. While the instance still exists, DeleteMachine
// names the instance instead.
func (s *shoot) requireBlocked(t *testing.T, m *machine, d driver.Driver) {
	t.Helper()

	const hold = "test.example.com/hold"

	s.setFinalizers(t, m.name(), hold)
	require.Equal(t, codes.DeadlineExceeded, codeOf(m.remove(t.Context(), d)))
	s.awaitInstanceGone(t, m.name())

	err := m.remove(t.Context(), d)
	require.Equal(t, codes.DeadlineExceeded, codeOf(err))
	require.ErrorContains(t, err, hold)
}

// awaitInstanceGone waits until a VirtualMachine has no instance.
func (s *shoot) awaitInstanceGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the instance of "+name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})
}

func (s *shoot) setFinalizers(t *testing.T, name string, finalizers ...string) {
	t.Helper()

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	require.NoError(t, err)
	_, err = s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// TestOrphansAreSeenTwice deletes a machine as machine-controller-manager's safety controller does:
// without a Machine's UID.
func TestOrphansAreSeenTwice(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	s, d := newShoot(t), newDriver(settings{grace: time.Minute, clock: clock})
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	uid := m.machine.UID
	m.machine.UID = ""

	for range 3 {
		require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "the first sighting, and those soon after, only mark")
		require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
		clock.Step(3 * time.Minute)
	}

	clock.Step(25 * time.Hour)
	require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "sightings that far apart are no pair")
	clock.Step(11 * time.Minute)

	m.machine.UID = uid
	_, err = m.status(t.Context(), d)
	require.NotEqual(t, codes.NotFound, codeOf(err))

	m.machine.UID = ""
	require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "a Machine was known in between")
	clock.Step(11 * time.Minute)

	restarted := newDriver(settings{grace: time.Minute, clock: clock})
	require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), restarted)), "every restart counts anew")
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func TestMachineOfAnEarlierLifeIsInTheWay(t *testing.T) {
	t.Parallel()
	everyWay(t, machineOfAnEarlierLifeIsInTheWay)
}

func machineOfAnEarlierLifeIsInTheWay(t *testing.T, newDriver func(settings) driver.Driver) {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	s.setFinalizers(t, m.name(), "test.example.com/hold")
	require.NoError(t, vms.Delete(t.Context(), m.name(), metav1.DeleteOptions{}))

	m.machine.UID = uuid.NewUUID()
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

// TestInstanceWithoutVirtualMachine tests the result of `kubectl delete vm --cascade=orphan`: a
// guest that keeps running.
func TestInstanceWithoutVirtualMachine(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)

	s.deleteWithoutInstance(t, m.name())
	require.NoError(t, m.remove(t.Context(), d))
	s.requireGone(t, m.name())
	s.requireNothingLeft(t)
}

func (s *shoot) deleteWithoutInstance(t *testing.T, name string) {
	t.Helper()

	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	require.NoError(t, vms.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	eventually(t, "the VirtualMachine is gone", func(ctx context.Context) (bool, error) {
		_, err := vms.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})

	_, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err, "the guest runs on")
}

// TestTagsThatLookLikeAnotherShoots uses a tag that a selector's parser would
// read as the other shoot's.
func TestTagsThatLookLikeAnotherShoots(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	victim := s.newMachine("zone-a", importedRoot)
	_, err := victim.create(t.Context(), d)
	require.NoError(t, err)
	victim.awaitScheduled(t, d)

	for _, tag := range []string{s.Namespace + " ", "=" + s.Namespace, "other,x!=y"} {
		intruder := *victim
		intruder.class = victim.class.DeepCopy()
		intruder.class.ProviderSpec.Raw = []byte(replace(string(intruder.class.ProviderSpec.Raw), strconv.Quote(s.Namespace), strconv.Quote(tag)))

		listed, err := intruder.list(t.Context(), d)
		require.NoError(t, err)
		require.Empty(t, listed)
		require.Equal(t, codes.InvalidArgument, codeOf(intruder.remove(t.Context(), d)))
	}

	_, err = s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), victim.name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, victim.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// TestDeletionOutlivesARestartOfTheServer answers a watch like a server that knows no resource
// version older than its start.
func TestDeletionOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()

	var refused atomic.Bool

	expire := func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" || refused.Swap(true) {
				return next.RoundTrip(r)
			}

			event := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`

			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(event)), Request: r,
			}, nil
		})
	}

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wrap: expire})
	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	require.NoError(t, m.remove(t.Context(), d))
	require.True(t, refused.Load(), "the watch was refused once")
	s.requireGone(t, m.name())
	s.requireNothingLeft(t)
}
