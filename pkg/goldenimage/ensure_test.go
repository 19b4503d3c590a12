package goldenimage

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// TestOnlyOwnImagesAreReplaced shows DataVolumes of an image's name that have failed.
func TestOnlyOwnImagesAreReplaced(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	image := func(change func(*cdiv1beta1.DataVolume)) *cdiv1beta1.DataVolume {
		dv := &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "golden-1", Namespace: "ns", CreationTimestamp: metav1.NewTime(began),
				Labels:      map[string]string{v1alpha1.TagCluster: "c", v1alpha1.LabelGoldenImage: "golden-1"},
				Annotations: map[string]string{v1alpha1.AnnotationGoldenImageKey: "key"},
			},
			Status: cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Failed},
		}
		change(dv)

		return dv
	}
	own := image(func(*cdiv1beta1.DataVolume) {})

	tests := map[string]struct {
		have *cdiv1beta1.DataVolume
		want []string
	}{
		"Own":          {own, []string{"delete golden image ns/golden-1"}},
		"Unlabelled":   {image(func(dv *cdiv1beta1.DataVolume) { dv.Labels = nil }), nil},
		"OtherShoot":   {image(func(dv *cdiv1beta1.DataVolume) { dv.Labels[v1alpha1.TagCluster] = "other" }), nil},
		"OtherContent": {image(func(dv *cdiv1beta1.DataVolume) { dv.Annotations[v1alpha1.AnnotationGoldenImageKey] = "other" }), nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked []string

			k := NewKeeper(clocktesting.NewFakePassiveClock(began.Add(time.Hour)))
			at := Place{
				Clients: &kubeconfig.Clients{Server: "s", Namespace: "ns"},
				Request: func(_ context.Context, what string, _ func(context.Context) error) error {
					asked = append(asked, what)

					return nil
				},
			}

			require.NoError(t, k.Observe(t.Context(), at, tc.have, own))
			require.Equal(t, tc.want, asked)
			require.Empty(t, k.images.state(at.ref("golden-1")), "nothing is known to be there")
		})
	}
}
