// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestImageWithoutAClass requires that an image without a MachineClass is deleted, and that the
// others stay.
func TestImageWithoutAClass(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.ApplyExample(t)
	s.StartControllers(t, "--machine-safety-orphan-vms-period=10s")
	s.AwaitRunning(t, 3)

	used := s.AwaitOneImage(t)
	image := s.Rendered(t, s.NewMachine("zone-a", harness.ImportedRoot))

	_, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the image is gone", func(ctx context.Context) (bool, error) {
		all, _, err := s.GoldenImages(ctx)

		return all[image.Name] == "", err
	})
	require.Equal(t, used, s.AwaitOneImage(t))
}
