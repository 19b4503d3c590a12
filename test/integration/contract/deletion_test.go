// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
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
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestBlockedDeletionNamesWhatBlocks(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, DeleteWait: 3 * time.Second})
	m := s.NewMachine("zone-x", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	requireBlocked(t, s, m, d)
	s.SetFinalizers(t, m.Name())
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// requireBlocked blocks the deletion of the VirtualMachine with a finalizer, and
// requires that DeleteMachine names it. While the instance still exists, DeleteMachine
// names the instance instead.
func requireBlocked(t *testing.T, s *harness.Shoot, m *harness.Machine, d driver.Driver) {
	t.Helper()

	const hold = "test.example.com/hold"

	s.SetFinalizers(t, m.Name(), hold)
	require.Equal(t, codes.DeadlineExceeded, harness.CodeOf(m.Remove(t.Context(), d)))
	awaitInstanceGone(t, s, m.Name())

	err := m.Remove(t.Context(), d)
	require.Equal(t, codes.DeadlineExceeded, harness.CodeOf(err))
	require.ErrorContains(t, err, hold)
}

// awaitInstanceGone waits until a VirtualMachine has no instance.
func awaitInstanceGone(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()
	harness.Eventually(t, "the instance of "+name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})
}

// TestOrphansAreSeenTwice deletes a machine as machine-controller-manager's safety controller does:
// without a Machine's UID.
func TestOrphansAreSeenTwice(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Clock: clock})
	m := s.NewMachine("zone-a", harness.ImportedRoot)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	uid := m.Machine.UID
	m.Machine.UID = ""

	for range 3 {
		require.Equal(t, codes.Aborted, harness.CodeOf(m.Remove(t.Context(), d)), "the first observation, and those soon after it, do not delete")
		require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)
		clock.Step(3 * time.Minute)
	}

	clock.Step(25 * time.Hour)
	require.Equal(t, codes.Aborted, harness.CodeOf(m.Remove(t.Context(), d)), "observations that are too far apart do not count together")
	clock.Step(11 * time.Minute)

	m.Machine.UID = uid
	_, err = m.Status(t.Context(), d)
	require.NotEqual(t, codes.NotFound, harness.CodeOf(err))

	m.Machine.UID = ""
	require.Equal(t, codes.Aborted, harness.CodeOf(m.Remove(t.Context(), d)), "a Machine was known in between")
	clock.Step(11 * time.Minute)

	restarted := harness.NewDriver(harness.Settings{Grace: time.Minute, Clock: clock})
	require.Equal(t, codes.Aborted, harness.CodeOf(m.Remove(t.Context(), restarted)), "a new process starts without observations")
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

func TestMachineOfAnEarlierLifeIsInTheWay(t *testing.T) {
	t.Parallel()
	harness.EveryWay(t, machineOfAnEarlierLifeIsInTheWay)
}

func machineOfAnEarlierLifeIsInTheWay(t *testing.T, newDriver func(harness.Settings) driver.Driver) {
	t.Helper()

	s := harness.NewShoot(t)
	d := newDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	vms := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	s.SetFinalizers(t, m.Name(), "test.example.com/hold")
	require.NoError(t, vms.Delete(t.Context(), m.Name(), metav1.DeleteOptions{}))

	m.Machine.UID = uuid.NewUUID()
	_, err = m.Status(t.Context(), d)
	require.Equal(t, codes.Aborted, harness.CodeOf(err))
	_, err = m.Create(t.Context(), d)
	require.Equal(t, codes.Aborted, harness.CodeOf(err))

	s.SetFinalizers(t, m.Name())
	harness.Eventually(t, "the earlier machine is gone", func(ctx context.Context) (bool, error) {
		_, err := m.Status(ctx, d)

		return harness.CodeOf(err) == codes.NotFound, nil
	})

	_, err = m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestInstanceWithoutVirtualMachine tests the result of `kubectl delete vm --cascade=orphan`: a
// guest that keeps running.
func TestInstanceWithoutVirtualMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)

	s.DeleteWithoutInstance(t, m.Name())
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireGone(t, m.Name())
	s.RequireNothingLeft(t)
}

// TestTagsThatLookLikeAnotherShoots uses a tag that a selector's parser would
// read as the other shoot's.
func TestTagsThatLookLikeAnotherShoots(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	victim := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := victim.Create(t.Context(), d)
	require.NoError(t, err)
	victim.AwaitScheduled(t, d)

	for _, tag := range []string{s.Namespace + " ", "=" + s.Namespace, "other,x!=y"} {
		intruder := *victim
		intruder.Class = victim.Class.DeepCopy()
		intruder.Class.ProviderSpec.Raw = []byte(harness.MustReplace(string(intruder.Class.ProviderSpec.Raw), strconv.Quote(s.Namespace), strconv.Quote(tag)))

		listed, err := intruder.List(t.Context(), d)
		require.NoError(t, err)
		require.Empty(t, listed)
		require.Equal(t, codes.InvalidArgument, harness.CodeOf(intruder.Remove(t.Context(), d)))
	}

	_, err = s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), victim.Name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, victim.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestDeletionOutlivesARestartOfTheServer answers a watch like a server that knows no resource
// version older than its start.
func TestDeletionOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()

	var refused atomic.Bool

	expire := func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" || refused.Swap(true) {
				return next.RoundTrip(r)
			}

			event := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`

			return &http.Response{
				StatusCode: http.StatusOK,
				Header:     http.Header{"Content-Type": {"application/json"}},
				Body:       io.NopCloser(strings.NewReader(event)),
				Request:    r,
			}, nil
		})
	}

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Wrap: expire})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	require.NoError(t, m.Remove(t.Context(), d))
	require.True(t, refused.Load(), "the watch was refused once")
	s.RequireGone(t, m.Name())
	s.RequireNothingLeft(t)
}
