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

// wrongChecksum is how an import ends for good.
const wrongChecksum = "checksum mismatch: expected a, got b"

// liveWithImageLost has somebody delete the golden image that the machine waits for.
func liveWithImageLost(t *testing.T, s *harness.Shoot, saboteur *saboteur) {
	t.Helper()

	s.ImportFor(t, time.Hour)

	r := newReplay(t, s.NewMachine("zone-a", harness.ImportedRoot), saboteur, impatient)

	repeat(t, "the machine waits for its image", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		return r.machine.Machine.Spec.ProviderID != ""
	})

	first := s.Images(t)
	image := s.Rendered(t, r.machine).Name
	require.Contains(t, first, image)
	require.NoError(t, s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Delete(t.Context(), image, metav1.DeleteOptions{}))

	r.passing = whileImporting

	repeat(t, "the image is made again", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		now := s.Images(t)[image]

		return now != "" && now != first[image] && saboteur.hasHit("InitializeMachine: get datavolumes", "InitializeMachine: create datavolumes")
	})

	s.ImportFor(t, 0)
	r.liveOn(t, s)
}

// liveWithImageFailed begins with an image that has failed for good, in an earlier process. It is replaced, and the next one fails too,
// until somebody repairs what is imported.
func liveWithImageFailed(t *testing.T, s *harness.Shoot, saboteur *saboteur) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.ImportedRoot)

	s.FailImports(t, wrongChecksum)
	image := s.CreateImage(t, m, cdiv1beta1.Failed)

	late := impatient
	late.ImageClock = harness.ClockAhead{By: 6 * time.Minute}
	r := newReplay(t, m, saboteur, late)
	r.passing = whileImporting

	repeat(t, "both methods have replaced the image", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))
		awaitImportEnd(t, s, image)

		return saboteur.hasHit("CreateMachine: get datavolumes", "CreateMachine: delete datavolumes", "InitializeMachine: delete datavolumes")
	})

	s.FailImports(t, "")
	repeat(t, "the image is replaced by one that is complete", func(t *testing.T) bool {
		t.Helper()
		require.False(t, r.creationPass(t))

		return awaitImportEnd(t, s, image) == cdiv1beta1.Succeeded
	})

	r.liveOn(t, s)
}

// liveWithClassDeleted has the machine's class be deleted. The image goes with the last machine; and again, since a process that has the
// class as it was makes another one, when machines are listed.
func liveWithClassDeleted(t *testing.T, s *harness.Shoot, saboteur *saboteur) {
	t.Helper()

	m, healthy := s.NewMachine("zone-a", harness.ImportedRoot), harness.NewDriver(harness.PatientSettings)
	r := newReplay(t, m, saboteur, harness.Settings{Grace: time.Minute, Wrap: changeImages(s, saboteur)})

	_, err := m.Create(t.Context(), healthy)
	require.NoError(t, err)
	m.AwaitScheduled(t, healthy)

	m.DeleteClass()

	repeat(t, "the machine's deletion has dealt with the image", func(t *testing.T) bool {
		t.Helper()
		r.remove(t)

		return saboteur.hasHit("DeleteMachine: list datavolumes", "DeleteMachine: list virtualmachines",
			"DeleteMachine: delete datavolumes", "DeleteMachine: get datavolumes")
	})

	listed := func(t *testing.T) bool {
		t.Helper()
		r.list(t)

		return len(s.Images(t)) == 0
	}

	repeat(t, "the image is gone", listed) // What the deletion could not do, the listing does that follows it.

	s.CreateImage(t, m, cdiv1beta1.Succeeded)
	repeat(t, "the image is gone", listed)
	require.True(t, saboteur.hasHit("ListMachines: list datavolumes", "ListMachines: list virtualmachines, no. 2",
		"ListMachines: delete datavolumes", "ListMachines: get datavolumes"))
	s.RequireNothingLeft(t)
}

// liveOn has the machine become whole in the hands of a patient process, and end.
func (r *replay) liveOn(t *testing.T, s *harness.Shoot) {
	t.Helper()

	r.restart(harness.PatientSettings)
	r.passing = nil

	r.create(t)
	r.requireWhole(t, s)
	r.remove(t)
	s.RequireNothingLeft(t)
}

// awaitImportEnd waits until an image has succeeded or failed, or is not there.
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

// changeImages has images change before each deletion, as those do that are being imported, until the method that deletes has had to look
// again, under the fault.
func changeImages(s *harness.Shoot, saboteur *saboteur) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if harness.CallOf(r.Method, r.URL) == "delete datavolumes" && !saboteur.hasHit(harness.MethodOf(r.Context())+": get datavolumes") {
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
