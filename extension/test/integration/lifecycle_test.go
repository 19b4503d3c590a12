// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// step is a change of a Shoot that replaces no machine.
type step struct {
	name   string
	change func(*seed.Botanist)
	// machines is the number of machines after the change.
	machines int
	// unchanged is set if the extension must not write to the provider cluster.
	unchanged bool
	check     func(*testing.T, *seed.Botanist)
}

func steps() []step {
	return []step{
		{name: "no machines", change: func(s *seed.Botanist) { pool(s, 0).Minimum = 0 }, check: imagesExist},
		{name: "three zones, uneven maximum", change: func(s *seed.Botanist) { pool(s, 0).Minimum = 3 }, machines: 3, check: maximaAreDistributed},
		{name: "nothing", change: func(*seed.Botanist) {}, machines: 3, unchanged: true},
		{
			name: "second pool",
			change: func(s *seed.Botanist) {
				second := *pool(s, 0).DeepCopy()
				second.Name, second.Zones, second.Minimum = "second", second.Zones[:1], 1
				s.Object.Spec.Provider.Workers = append(s.Object.Spec.Provider.Workers, second)
			},
			machines: 4,
		},
		{
			name: "second pool removed, scaled down to one zone",
			change: func(s *seed.Botanist) {
				s.Object.Spec.Provider.Workers = s.Object.Spec.Provider.Workers[:1]
				pool(s, 0).Minimum, pool(s, 0).Maximum, pool(s, 0).Zones = 1, 1, pool(s, 0).Zones[:1]
			},
			machines: 1,
		},
		{
			name: "hibernated",
			change: func(s *seed.Botanist) {
				s.Object.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}
			},
		},
		{name: "woken up", change: func(s *seed.Botanist) { s.Object.Spec.Hibernation = nil }, machines: 1},
	}
}

// TestLifecycle changes a Shoot as its owner does, moves it to another seed, and deletes it.
func TestLifecycle(t *testing.T) { //nolint:tparallel // The steps change one shoot.
	t.Parallel()

	shoot := newShoot(t)

	for _, step := range steps() {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, shoot) }) {
			return
		}
	}

	t.Run("credentials rotated", func(t *testing.T) { rotate(t, shoot) })
	t.Run("moved to another seed", func(t *testing.T) { move(t, shoot) })
	t.Run("deleted", func(t *testing.T) { requireNothingLeft(t, shoot) })
}

func (s step) run(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	before := machines(t, shoot)
	start := time.Now()

	s.change(shoot)
	require.NoError(t, shoot.Reconcile(t.Context()))

	if s.unchanged {
		requests, err := shoot.Requests(start)
		require.NoError(t, err)
		require.NotEmpty(t, requests)

		writes, err := shoot.Writes(start)
		require.NoError(t, err)
		require.Empty(t, writes)
	}

	requireReadyNodes(t, shoot, s.machines)

	if s.check != nil {
		s.check(t, shoot)
	}

	require.Equal(t, min(len(before), s.machines), kept(before, machines(t, shoot)), "machines that were not replaced")
}

// kept returns the number of virtual machines that exist before and after a change.
func kept(before, after map[string]types.UID) (count int) {
	for name, uid := range before {
		if after[name] == uid {
			count++
		}
	}

	return count
}

// imagesExist requires the golden image of the pool, although it has no machine yet.
func imagesExist(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	images := &cdiv1beta1.DataVolumeList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), images, client.InNamespace(shoot.ProviderNamespace)))
	require.Len(t, images.Items, 1)
}

// maximaAreDistributed requires that the maximum of five machines is spread over three zones.
func maximaAreDistributed(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	w := &extensionsv1alpha1.Worker{}
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: shoot.Object.Name}, w))

	maxima := map[string]int32{}
	for _, d := range w.Status.MachineDeployments {
		maxima[strings.TrimPrefix(d.Name, shoot.Namespace)] = d.Maximum
	}

	require.Equal(t, map[string]int32{"-pool-z1": 2, "-pool-z2": 2, "-pool-z3": 1}, maxima)
}

// rotate replaces the credentials: existing machines stay, and new ones are created with them.
func rotate(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	before := machines(t, shoot)

	require.NoError(t, shoot.RotateCredentials(t.Context()))
	pool(shoot, 0).Minimum = 2
	pool(shoot, 0).Maximum = 2
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 2)

	require.Equal(t, len(before), kept(before, machines(t, shoot)))
}

// move migrates the shoot to a seed that knows nothing of it: the same machines go on.
func move(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	before := machines(t, shoot)
	require.NotEmpty(t, before)

	known := classes(t, shoot)

	state, err := shoot.Migrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, machines(t, shoot), "without a seed")

	require.NoError(t, shoot.Restore(t.Context(), state))
	require.Equal(t, before, machines(t, shoot))
	require.Equal(t, known, classes(t, shoot))

	require.NoError(t, shoot.Reconcile(t.Context()))
	require.Equal(t, before, machines(t, shoot))
	requireReadyNodes(t, shoot, len(before))
}
