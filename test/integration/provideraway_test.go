package integration

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
)

// outage makes the provider cluster unavailable for at least this long, requests a machine of an
// empty pool, and restores the provider cluster after machine-controller-manager has given up that
// machine. It returns when the machine's successor runs, and logs how soon that was created.
func (s *shoot) outage(t *testing.T, l *line, pool string, atLeast time.Duration) {
	t.Helper()

	over := time.NewTimer(atLeast)
	reset := faultNamed(t, "reset before")
	l.down.Store(&reset)
	s.scale(t, pool, 1)
	within(t, atLeast+settled, "a machine of "+pool+" is given up", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + pool})

		return err == nil && len(list.Items) > 1, err
	})
	s.giveUpAfter(t, pool, nil)
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
	l.carriedOut.Store(&tell)

	back := time.Now()

	l.down.Store(nil)
	s.oneOf(t, pool)
	l.carriedOut.Store(nil)
	t.Logf("the first machine was created %.1f s after the provider cluster came back", (<-created).Sub(back).Seconds())
}

// TestProviderAwayForHalfAnHour calls every method repeatedly while the provider cluster is
// unavailable. None reports a machine as gone or treats it as an orphan. Afterwards the first
// attempt creates the missing objects.
func TestProviderAwayForHalfAnHour(t *testing.T) {
	t.Parallel()

	var away atomic.Bool

	cut := func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, syscall.ECONNREFUSED
			}

			return next.RoundTrip(r)
		})
	}

	clock := clocktesting.NewFakeClock(time.Now())
	s := newShoot(t)
	d := newDriver(settings{grace: time.Minute, clock: clock, wrap: cut, wait: 50 * time.Millisecond, retry: time.Millisecond})
	healthy := newDriver(patient) // The other one gives up at once.
	running, wanted, orphan := s.newMachine("zone-a", ephemeralRoot), s.newMachine("zone-x", ephemeralRoot), s.newMachine("zone-x", ephemeralRoot)

	for _, m := range []*machine{running, orphan} {
		_, err := m.create(t.Context(), healthy)
		require.NoError(t, err)
	}

	running.awaitScheduled(t, healthy)

	orphan.machine.UID = ""
	before := s.identities(t)

	away.Store(true)

	for range 6 {
		for _, m := range []*machine{running, wanted} {
			_, err := m.status(t.Context(), d)
			require.Equal(t, codes.Unavailable, codeOf(err))
			_, err = m.create(t.Context(), d)
			require.Equal(t, codes.Unavailable, codeOf(err))
			_, err = m.initialize(t.Context(), d)
			require.Equal(t, codes.Unavailable, codeOf(err))
		}

		_, err := running.list(t.Context(), d)
		require.Equal(t, codes.Unavailable, codeOf(err))
		require.Equal(t, codes.Unavailable, codeOf(orphan.remove(t.Context(), d)))
		clock.Step(5 * time.Minute)
	}

	away.Store(false)

	_, err := wanted.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
	_, err = wanted.create(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, codes.Aborted, codeOf(orphan.remove(t.Context(), d)), "nobody saw it before")
	_, err = running.status(t.Context(), d)
	require.NoError(t, err)
	require.Subset(t, s.identities(t), before)

	orphan.machine.UID = "known"
	for _, m := range []*machine{running, wanted, orphan} {
		require.NoError(t, m.remove(t.Context(), healthy))
	}

	s.requireNothingLeft(t)
}
