// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

var one = ref{server: "s", namespace: "ns", name: "golden-1"}

func TestTryLock(t *testing.T) {
	t.Parallel()

	i := newStates()
	first := i.share(one)
	second := i.share(one)

	_, ok := i.tryLock(one)
	require.False(t, ok, "two machines are being made of it")

	other, ok := i.tryLock(ref{server: "s", namespace: "ns", name: "golden-2"})
	require.True(t, ok, "another image is not concerned")
	other()

	first()

	_, ok = i.tryLock(one)
	require.False(t, ok, "one machine is being made of it")

	second()

	alone, ok := i.tryLock(one)
	require.True(t, ok)

	_, ok = i.tryLock(one)
	require.False(t, ok, "it is being deleted already")
	alone()
}

func TestStates_Eviction(t *testing.T) {
	t.Parallel()

	i := newStates()
	i.share(one)()
	require.Empty(t, i.all, "nobody uses it, and it is not known to be there")

	i.set(one, ready, "1")
	i.share(one)()
	require.Equal(t, ready, i.state(one))

	release := i.share(one)
	require.Equal(t, ready, i.set(one, "", ""))
	require.Len(t, i.all, 1, "the lock of one that is used stays the same")
	release()
	require.Empty(t, i.all)
	require.Empty(t, i.state(one))
}

// TestMetrics shows that an import counts once, and only if its beginning was seen: a restarted process does not count it again.
func TestMetrics(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := NewManager(clocktesting.NewFakePassiveClock(began.Add(time.Hour)), period)
	at := &providerapi.Clients{Server: "s", Namespace: "ns"}

	image := func(phase cdiv1beta1.DataVolumePhase) *cdiv1beta1.DataVolume {
		return &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "golden-1", CreationTimestamp: metav1.NewTime(began)},
			Status: cdiv1beta1.DataVolumeStatus{
				Phase: phase,
				Conditions: []cdiv1beta1.DataVolumeCondition{{
					Type:               cdiv1beta1.DataVolumeReady,
					Status:             corev1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(began.Add(3 * time.Second)),
				}},
			},
		}
	}

	require.NoError(t, k.Observe(t.Context(), at, image(cdiv1beta1.Succeeded), image("")))
	require.Zero(t, samples(t, k), "it was complete when this process began")

	k.Forget(at, "golden-1")

	for _, phase := range []cdiv1beta1.DataVolumePhase{
		cdiv1beta1.ImportInProgress, cdiv1beta1.Succeeded, cdiv1beta1.ImportInProgress, cdiv1beta1.Succeeded,
	} {
		require.NoError(t, k.Observe(t.Context(), at, image(phase), image("")))
	}

	require.Equal(t, uint64(1), samples(t, k), "what was seen late changes nothing")

	k.Cloned()

	_, clones := gathered(t, k)
	require.InDelta(t, 1, clones, 0)
	require.Equal(t, map[state]int{importing: 0, ready: 1, failed: 0}, k.states.count())
}

func samples(t *testing.T, k *Manager) uint64 {
	t.Helper()

	imports, _ := gathered(t, k)

	return imports
}

// gathered returns how many imports were measured, and how many clones were counted.
func gathered(t *testing.T, k *Manager) (imports uint64, clones float64) {
	t.Helper()

	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(k))

	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 3)

	for _, family := range families {
		switch first := family.GetMetric()[0]; family.GetName() {
		case "mcm_kubevirt_golden_image_import_duration_seconds":
			imports = first.GetHistogram().GetSampleCount()
		case "mcm_kubevirt_golden_image_clones_total":
			clones = first.GetCounter().GetValue()
		default:
		}
	}

	return imports, clones
}
