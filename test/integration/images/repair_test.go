// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestFailedGoldenImageIsReplaced lets an import fail until its source is repaired. The driver replaces
// an image that CDI has given up, as for a wrong checksum, and leaves any other image to CDI.
func TestFailedGoldenImageIsReplaced(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	source := harness.BrokenSources.Get(t)
	s.FailImports(t, source.Message)

	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	f := &harness.Failure{Want: source.Token}
	err := s.AwaitFailure(t, f, m, d)
	require.ErrorContains(t, err, source.Token+": image golden-")
	require.ErrorContains(t, err, source.Message, "the text contains CDI's message")

	name := s.Rendered(t, m).Name
	first := s.Images(t)[name]

	harness.Eventually(t, "the failure is reported again", func(ctx context.Context) (bool, error) {
		_, err := m.Initialize(ctx, d) // There is none while CDI repeats the import.

		return err != nil && strings.Contains(err.Error(), source.Token), nil
	})
	require.Equal(t, first, s.Images(t)[name], "an image is not replaced within minutes, in case its import always fails")

	s.FailImports(t, "")

	later := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second, Clock: harness.ClockAhead{By: 6 * time.Minute}})
	m.AwaitRecovery(t, later)
	require.Equal(t, source.Final, first != s.Images(t)[name], "CDI itself repeats an import that it has not given up")
	require.NoError(t, m.Remove(t.Context(), later))
	s.RequireNothingLeft(t)
}

// TestLostGoldenImageIsMadeAgain deletes the image while a machine waits for it.
func TestLostGoldenImageIsMadeAgain(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second})
	s.ImportFor(t, time.Hour)

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	name := s.Rendered(t, m).Name
	first := s.Images(t)[name]
	require.NotEmpty(t, first)
	require.NoError(t, s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}))

	harness.Eventually(t, "the image is created again", func(ctx context.Context) (bool, error) {
		if _, err := m.Initialize(ctx, d); err != nil {
			require.NotContains(t, err.Error(), "CloneSourceNotFound", "no failure is reported while the image is repaired")
		}

		found, err := s.FindImages(ctx)

		return found[name] != "" && found[name] != first, err
	})

	s.ImportFor(t, 0)
	m.AwaitRecovery(t, d)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestGoldenImageThatLostItsClaim deletes the claim of a complete image. CDI then imports it again.
func TestGoldenImageThatLostItsClaim(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	first := s.NewMachine("zone-a", harness.ImportedRoot)
	second := s.NewMachine("zone-b", harness.ImportedRoot)

	_, err := first.Create(t.Context(), d)
	require.NoError(t, err)
	first.AwaitScheduled(t, d)

	name := s.Rendered(t, first).Name
	claims := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace)
	require.NoError(t, claims.Delete(t.Context(), name, metav1.DeleteOptions{}))
	harness.Eventually(t, "CDI has created another claim", func(ctx context.Context) (bool, error) {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})

		return err == nil && claim.DeletionTimestamp == nil, nil
	})

	_, err = second.Create(t.Context(), d)
	require.NoError(t, err)
	second.AwaitScheduled(t, d)
	require.NoError(t, first.Remove(t.Context(), d))
	require.NoError(t, second.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestImportIsFollowedOnAllMachines checks that each waiting machine shows the progress and the
// failure of the import.
func TestImportIsFollowedOnAllMachines(t *testing.T) {
	t.Parallel()

	told := &eventLog{reasons: map[types.UID][]string{}}
	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second, Events: told})
	s.ImportFor(t, time.Hour)

	machines := []*harness.Machine{s.NewMachine("zone-a", harness.ImportedRoot), s.NewMachine("zone-b", harness.ImportedRoot), s.NewMachine("zone-a", harness.ImportedRoot)}
	createAll(t, d, machines)

	for _, m := range machines {
		harness.Eventually(t, "the import is reported", func(ctx context.Context) (bool, error) {
			_, _ = m.Initialize(ctx, d) // With this short grace period, a slow start of the importer is an error too.

			return told.has(m, "GoldenImageImporting: image golden-"), nil
		})
		require.True(t, told.has(m, "GoldenImageEnsured: "))
	}

	s.FailImports(t, "Unable to connect to http data source: expected status code 200, got 401. Status: 401 Unauthorized")
	s.ImportFor(t, 0)

	for _, m := range machines {
		harness.Eventually(t, "the failure is reported", func(ctx context.Context) (bool, error) {
			_, err := m.Initialize(ctx, d)

			return err != nil && strings.Contains(err.Error(), "ImageUnauthorized: image golden-") &&
				strings.Contains(err.Error(), "401 Unauthorized"), nil
		})
	}

	removeAll(t, d, machines)
	s.RequireNothingLeft(t)
}

// eventLog records the driver's Events of machines.
type eventLog struct {
	record.EventRecorder

	mu      sync.Mutex
	reasons map[types.UID][]string
}

// Event implements record.EventRecorder.
func (l *eventLog) Event(object runtime.Object, _, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if o, ok := object.(metav1.Object); ok {
		l.reasons[o.GetUID()] = append(l.reasons[o.GetUID()], reason+": "+message)
	}
}

func (l *eventLog) has(m *harness.Machine, beginning string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, said := range l.reasons[m.Machine.UID] {
		if strings.HasPrefix(said, beginning) {
			return true
		}
	}

	return false
}
