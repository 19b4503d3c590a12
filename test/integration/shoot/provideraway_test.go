// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// outage makes the provider cluster unavailable for at least this long, requests a machine of an
// empty pool, and restores the provider cluster after machine-controller-manager has given up that
// machine. It returns when the machine's successor runs, and logs how soon that was created.
func outage(t *testing.T, s *harness.Shoot, l *harness.Line, pool string, atLeast time.Duration) {
	t.Helper()

	over := time.NewTimer(atLeast)
	reset := harness.FaultNamed(t, "reset before")
	l.Down.Store(&reset)
	s.Scale(t, pool, 1)
	harness.Within(t, atLeast+harness.Settled, "a machine of "+pool+" is given up", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + pool})

		return err == nil && len(list.Items) > 1, err
	})
	giveUpAfter(t, s, pool, nil)
	<-over.C

	created := make(chan time.Time, 1)
	tell := func(made string) {
		if made == "create virtualmachines" {
			select {
			case created <- time.Now():
			default:
			}
		}
	}
	l.CarriedOut.Store(&tell)

	back := time.Now()

	l.Down.Store(nil)
	s.OneOf(t, pool)
	l.CarriedOut.Store(nil)
	t.Logf("the first machine was created %.1f s after the provider cluster came back", (<-created).Sub(back).Seconds())
}

// TestProviderAwayForHalfAnHour calls every method repeatedly while the provider cluster is
// unavailable. None reports a machine as gone or treats it as an orphan. Afterwards the first
// attempt creates the missing objects.
func TestProviderAwayForHalfAnHour(t *testing.T) {
	t.Parallel()

	var away atomic.Bool

	cut := func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, syscall.ECONNREFUSED
			}

			return next.RoundTrip(r)
		})
	}

	clock := clocktesting.NewFakeClock(time.Now())
	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Clock: clock, Wrap: cut, Wait: 50 * time.Millisecond, Retry: time.Millisecond})
	healthy := harness.NewDriver(harness.PatientSettings) // d retries for only a millisecond.
	running := s.NewMachine("zone-a", harness.EphemeralRoot)
	wanted := s.NewMachine("zone-x", harness.EphemeralRoot)
	orphan := s.NewMachine("zone-x", harness.EphemeralRoot)

	for _, m := range []*harness.Machine{running, orphan} {
		_, err := m.Create(t.Context(), healthy)
		require.NoError(t, err)
	}

	running.AwaitScheduled(t, healthy)

	orphan.Machine.UID = ""
	before := identities(t, s)

	away.Store(true)

	for range 6 {
		for _, m := range []*harness.Machine{running, wanted} {
			_, err := m.Status(t.Context(), d)
			require.Equal(t, codes.Unavailable, harness.CodeOf(err))
			_, err = m.Create(t.Context(), d)
			require.Equal(t, codes.Unavailable, harness.CodeOf(err))
			_, err = m.Initialize(t.Context(), d)
			require.Equal(t, codes.Unavailable, harness.CodeOf(err))
		}

		_, err := running.List(t.Context(), d)
		require.Equal(t, codes.Unavailable, harness.CodeOf(err))
		require.Equal(t, codes.Unavailable, harness.CodeOf(orphan.Remove(t.Context(), d)))
		clock.Step(5 * time.Minute)
	}

	away.Store(false)

	_, err := wanted.Status(t.Context(), d)
	require.Equal(t, codes.NotFound, harness.CodeOf(err))
	_, err = wanted.Create(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, codes.Aborted, harness.CodeOf(orphan.Remove(t.Context(), d)), "the orphan has not been seen before")
	_, err = running.Status(t.Context(), d)
	require.NoError(t, err)
	require.Subset(t, identities(t, s), before)

	orphan.Machine.UID = "known"
	for _, m := range []*harness.Machine{running, wanted, orphan} {
		require.NoError(t, m.Remove(t.Context(), healthy))
	}

	s.RequireNothingLeft(t)
}
