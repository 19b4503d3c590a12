package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// ahead is a clock that is ahead of the provider cluster's.
type ahead struct {
	clock.RealClock

	by time.Duration
}

func (c ahead) Now() time.Time { return c.RealClock.Now().Add(c.by) }

func (c ahead) Since(t time.Time) time.Duration { return c.RealClock.Since(t) + c.by }

// TestFailedGoldenImageIsReplaced lets an import end for good, as with a wrong checksum. CDI never tries it again.
func TestFailedGoldenImageIsReplaced(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.failImports(t, "checksum mismatch: expected a, got b")

	d := newDriver(settings{grace: shortGrace, wait: time.Second})
	m := s.newMachine("zone-a", importedRoot)
	f := &failure{want: "ImageCorrupt"}
	err := s.awaitFailure(t, f, m, d)
	require.ErrorContains(t, err, "ImageCorrupt: image golden-")
	require.ErrorContains(t, err, "checksum mismatch", "in CDI's words")

	name := s.rendered(t, m).Name
	first := s.images(t)[name]

	_, err = m.initialize(t.Context(), d)
	require.ErrorContains(t, err, "ImageCorrupt")
	require.Equal(t, first, s.images(t)[name], "it is too young: an import that always fails is not begun again and again")

	s.failImports(t, "")

	later := newDriver(settings{grace: shortGrace, wait: time.Second, clock: ahead{by: 6 * time.Minute}})
	m.awaitRecovery(t, later)
	require.NotEqual(t, first, s.images(t)[name])
	require.NoError(t, m.remove(t.Context(), later))
	s.requireNothingLeft(t)
}

// TestLostGoldenImageIsMadeAgain takes the image away from a machine that waits for it.
func TestLostGoldenImageIsMadeAgain(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: shortGrace, wait: time.Second})
	s.importFor(t, time.Hour)

	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	name := s.rendered(t, m).Name
	first := s.images(t)[name]
	require.NotEmpty(t, first)
	require.NoError(t, s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}))

	eventually(t, "the image is made again", func(ctx context.Context) (bool, error) {
		if _, err := m.initialize(ctx, d); err != nil {
			require.NotContains(t, err.Error(), "CloneSourceNotFound", "a repair is no failure")
		}

		found, err := s.findImages(ctx)

		return found[name] != "" && found[name] != first, err
	})

	s.importFor(t, 0)
	m.awaitRecovery(t, d)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// TestGoldenImageThatLostItsClaim takes the claim away from a complete image. CDI imports it again by itself.
func TestGoldenImageThatLostItsClaim(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: settled})
	first, second := s.newMachine("zone-a", importedRoot), s.newMachine("zone-b", importedRoot)

	_, err := first.create(t.Context(), d)
	require.NoError(t, err)
	first.awaitScheduled(t, d)

	name := s.rendered(t, first).Name
	claims := s.kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace)
	require.NoError(t, claims.Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually(t, "the claim is another one", func(ctx context.Context) (bool, error) {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})

		return err == nil && claim.DeletionTimestamp == nil, nil
	})

	_, err = second.create(t.Context(), d)
	require.NoError(t, err)
	second.awaitScheduled(t, d)
	require.NoError(t, first.remove(t.Context(), d))
	require.NoError(t, second.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// TestImportIsFollowedOnAllMachines shows how far the import has come, and what is wrong with it, on each machine that waits.
func TestImportIsFollowedOnAllMachines(t *testing.T) {
	t.Parallel()

	told := &eventLog{reasons: map[types.UID][]string{}}
	s, d := newShoot(t), newDriver(settings{grace: shortGrace, wait: time.Second, events: told})
	s.importFor(t, time.Hour)

	machines := []*machine{s.newMachine("zone-a", importedRoot), s.newMachine("zone-b", importedRoot), s.newMachine("zone-a", importedRoot)}
	createAll(t, d, machines)

	for _, m := range machines {
		eventually(t, "the import is told of", func(ctx context.Context) (bool, error) {
			_, _ = m.initialize(ctx, d) // With a grace as short as this, an importer that is slow to start is reported too.

			return told.has(m, "GoldenImageImporting: image golden-"), nil
		})
		require.True(t, told.has(m, "GoldenImageEnsured: "))
	}

	s.failImports(t, "Unable to connect to http data source: expected status code 200, got 401. Status: 401 Unauthorized")
	s.importFor(t, 0)

	for _, m := range machines {
		eventually(t, "the failure is told of", func(ctx context.Context) (bool, error) {
			_, err := m.initialize(ctx, d)

			return err != nil && strings.Contains(err.Error(), "ImageUnauthorized: image golden-") &&
				strings.Contains(err.Error(), "401 Unauthorized"), nil
		})
	}

	removeAll(t, d, machines)
	s.requireNothingLeft(t)
}

// eventLog keeps what the driver tells of machines.
type eventLog struct {
	mu      sync.Mutex
	reasons map[types.UID][]string
}

// Event implements kubevirt.EventRecorder.
func (l *eventLog) Event(object runtime.Object, _, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if o, ok := object.(metav1.Object); ok {
		l.reasons[o.GetUID()] = append(l.reasons[o.GetUID()], reason+": "+message)
	}
}

func (l *eventLog) has(m *machine, beginning string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, said := range l.reasons[m.machine.UID] {
		if strings.HasPrefix(said, beginning) {
			return true
		}
	}

	return false
}

// awaitImage waits until an image is in a phase.
func (s *shoot) awaitImage(t *testing.T, name string, phase cdiv1beta1.DataVolumePhase) {
	t.Helper()

	eventually(t, fmt.Sprintf("image %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		image, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})

		return err == nil && image.Status.Phase == phase, err
	})
}
