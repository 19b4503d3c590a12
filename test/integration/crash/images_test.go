// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"net/http"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// runWithImageLost deletes the golden image while the machine waits for it.
func runWithImageLost(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	s.ImportFor(t, time.Hour)

	r := newReplay(t, s.NewMachine("zone-a", harness.ImportedRoot), injector, impatient)

	passUntil(t, "the machine waits for its image", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		return r.machine.Machine.Spec.ProviderID != ""
	})

	first := s.Images(t)
	image := s.Rendered(t, r.machine).Name
	require.Contains(t, first, image)
	require.NoError(t, s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Delete(t.Context(), image, metav1.DeleteOptions{}))

	r.passing = whileImporting

	passUntil(t, "the image is created again", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		now := s.Images(t)[image]

		return now != "" && now != first[image] && injector.hasHit("InitializeMachine: get datavolumes", "InitializeMachine: create datavolumes")
	})

	s.ImportFor(t, 0)
	r.finish(t, s)
}

// runWithImageFailed begins with an image that has failed, in an earlier process, and whose source is
// repaired later.
func runWithImageFailed(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	source := harness.BrokenSources.Get(t)
	s.FailImports(t, source.Message)

	if source.Final {
		runWithImageReplaced(t, s, injector)
	} else {
		runWithImageRepeated(t, s, injector)
	}
}

// runWithImageRepeated leaves the failing image to CDI, which repeats its import.
func runWithImageRepeated(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	image := s.CreateImage(t, m, cdiv1beta1.ImportInProgress)
	first := s.Images(t)[image]

	late := impatient
	late.ImageClock = harness.ClockAhead{By: 6 * time.Minute}
	r := newReplay(t, m, injector, late)
	r.passing = whileImporting

	passUntil(t, "both methods have read the image", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		return injector.hasHit("CreateMachine: get datavolumes", "InitializeMachine: get datavolumes")
	})

	s.FailImports(t, "")
	require.Equal(t, cdiv1beta1.Succeeded, awaitImportEnd(t, s, image))
	require.Equal(t, first, s.Images(t)[image])
	r.finish(t, s)
}

// runWithImageReplaced replaces an image that CDI has given up. The next images fail too.
func runWithImageReplaced(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	image := s.CreateImage(t, m, cdiv1beta1.Failed)

	late := impatient
	late.ImageClock = harness.ClockAhead{By: 6 * time.Minute}
	r := newReplay(t, m, injector, late)
	r.passing = whileImporting

	passUntil(t, "both methods have replaced the image", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))
		awaitImportEnd(t, s, image)

		return injector.hasHit("CreateMachine: get datavolumes", "CreateMachine: delete datavolumes", "InitializeMachine: delete datavolumes")
	})

	s.FailImports(t, "")
	passUntil(t, "a complete image has replaced the failed one", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		return awaitImportEnd(t, s, image) == cdiv1beta1.Succeeded
	})

	r.finish(t, s)
}

// runWithClassDeleted deletes the machine's class. The driver deletes the image with the last
// machine. A process with an outdated class then creates the image again, and the driver deletes it
// when it lists the machines.
func runWithClassDeleted(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	healthy := harness.NewDriver(harness.PatientSettings)
	r := newReplay(t, m, injector, harness.Settings{Grace: time.Minute, Wrap: changeImages(s, injector)})

	_, err := m.Create(t.Context(), healthy)
	require.NoError(t, err)
	m.AwaitScheduled(t, healthy)

	m.DeleteClass()

	passUntil(t, "the machine's deletion has swept the image under the faults", func(t *testing.T) bool {
		t.Helper()
		r.remove(t)

		return injector.hasHit("DeleteMachine: list datavolumes", "DeleteMachine: list virtualmachines",
			"DeleteMachine: delete datavolumes", "DeleteMachine: get datavolumes")
	})

	listed := func(t *testing.T) bool {
		t.Helper()
		r.list(t)

		return len(s.Images(t)) == 0
	}

	passUntil(t, "the image is gone", listed) // A listing deletes the image if the deletion could not.

	s.CreateImage(t, m, cdiv1beta1.Succeeded)
	passUntil(t, "the image is gone", listed)
	require.True(t, injector.hasHit("ListMachines: list datavolumes", "ListMachines: list virtualmachines, no. 2",
		"ListMachines: delete datavolumes", "ListMachines: get datavolumes"))
	s.RequireNothingLeft(t)
}

// finish completes the machine in a process with long grace periods, and deletes it.
func (r *replay) finish(t *testing.T, s *harness.Shoot) {
	t.Helper()

	r.restart(harness.PatientSettings)
	r.passing = nil

	r.create(t)
	r.requireWhole(t, s)
	r.remove(t)
	s.RequireNothingLeft(t)
}

// awaitImportEnd waits until an image has succeeded or failed, or does not exist.
func awaitImportEnd(t *testing.T, s *harness.Shoot, image string) (end cdiv1beta1.DataVolumePhase) {
	t.Helper()

	harness.Eventually(t, "the import has ended", func(ctx context.Context) (bool, error) {
		found, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Get(ctx, image, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		if err != nil {
			return false, err
		}

		end = found.Status.Phase

		return end == cdiv1beta1.Succeeded || end == cdiv1beta1.Failed, nil
	})

	return end
}

// changeImages changes images before each deletion, as an import in progress does, until the
// deleting method has read the image again under the faults.
func changeImages(s *harness.Shoot, injector *faultInjector) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if harness.CallOf(r.Method, r.URL) == "delete datavolumes" && !injector.hasHit(harness.MethodOf(r.Context())+": get datavolumes") {
				if err := changeImage(r.Context(), s, path.Base(r.URL.Path)); err != nil {
					return nil, err
				}
			}

			return next.RoundTrip(r)
		})
	}
}

func changeImage(ctx context.Context, s *harness.Shoot, name string) error {
	patch := []byte(`{"metadata":{"annotations":{"test.example.com/changed":"` + rand.String(8) + `"}}}`)
	_, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})

	return err
}
