// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// PatientSettings has a grace period so long that the driver reports no failure. It is for tests in
// which transient failures, while an image is replaced, are irrelevant.
var PatientSettings = Settings{Grace: time.Minute}

// CreateImage creates the golden image of a machine, as another process does, and returns its name
// when the import has reached a phase.
func (s *Shoot) CreateImage(t *testing.T, m *Machine, phase cdiv1beta1.DataVolumePhase) string {
	t.Helper()

	image, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), s.Rendered(t, m), metav1.CreateOptions{})
	require.NoError(t, err)
	s.AwaitImage(t, image.Name, phase)

	return image.Name
}

// Images returns the UIDs of all DataVolumes with the label of a golden image that belong to no
// machine, by their names.
func (s *Shoot) Images(t *testing.T) map[string]types.UID {
	t.Helper()

	found, err := s.FindImages(t.Context())
	require.NoError(t, err)

	return found
}

// FindImages returns the UIDs of the golden images in the provider namespace by their names.
func (s *Shoot) FindImages(ctx context.Context) (map[string]types.UID, error) {
	list, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.LabelGoldenImage + ",!" + render.LabelMachine,
	})
	if err != nil {
		return nil, err
	}

	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}

	return found, nil
}

// Rendered returns the image that a machine is cloned from.
func (s *Shoot) Rendered(t *testing.T, m *Machine) *cdiv1beta1.DataVolume {
	t.Helper()

	image, err := m.image(t).DataVolume(s.ProviderNamespace)
	require.NoError(t, err)

	return image
}

// image is the source of a machine's golden image.
func (m *Machine) image(t *testing.T) goldenimage.Source {
	t.Helper()

	spec, errs := v1alpha1.Decode(m.Class.ProviderSpec.Raw, field.NewPath("providerSpec"))
	require.Empty(t, errs)

	return goldenimage.Source{Spec: spec}
}

// ImportFor sets how long imports take.
func (s *Shoot) ImportFor(t *testing.T, latency time.Duration) {
	t.Helper()
	s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportLatencyAnnotation: latency.String()}})
}

// FailImports lets imports fail with this message; if it is empty, they succeed again.
func (s *Shoot) FailImports(t *testing.T, message string) {
	t.Helper()

	var value any
	if message != "" {
		value = message
	}

	s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportFaultAnnotation: value}})
}

// ClockAhead is a clock that is ahead of the provider cluster's.
type ClockAhead struct {
	clock.RealClock

	By time.Duration
}

// Now implements clock.PassiveClock.
func (c ClockAhead) Now() time.Time { return c.RealClock.Now().Add(c.By) }

// Since implements clock.PassiveClock.
func (c ClockAhead) Since(t time.Time) time.Duration { return c.RealClock.Since(t) + c.By }

// AwaitImage waits until an image is in a phase.
func (s *Shoot) AwaitImage(t *testing.T, name string, phase cdiv1beta1.DataVolumePhase) {
	t.Helper()

	Eventually(t, fmt.Sprintf("image %s is %s", name, phase), func(ctx context.Context) (bool, error) {
		image, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})

		return err == nil && image.Status.Phase == phase, err
	})
}

// DeleteImages deletes the golden images of a shoot by their labels, as docs/images.md
// describes.
func (s *Shoot) DeleteImages(t *testing.T, cluster string) {
	t.Helper()

	images := metav1.ListOptions{LabelSelector: v1alpha1.TagCluster + "=" + cluster + "," + v1alpha1.LabelGoldenImage + ",!" + v1alpha1.TagRole}
	require.NoError(t, s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, images))
}
