package providercluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

func imageOf(t *testing.T, url string) spi.Image {
	t.Helper()

	spec, errs := v1alpha1.Decode([]byte(`{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
		"rootVolume":{"source":{"http":{"url":"`+url+`"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}`), field.NewPath("providerSpec"))
	require.Empty(t, errs)

	return spi.Image{Spec: spec}
}

func TestWhichImagesMayGo(t *testing.T) {
	t.Parallel()

	live, dead, unknown := imageOf(t, "https://h/live"), imageOf(t, "https://h/dead"), imageOf(t, "https://h/unknown")
	none := imageOf(t, "https://h/none")
	none.Spec.DisablePreAllocatedDataVolumes = true

	tests := map[string]struct {
		reason string
		in     spi.SweepImagesInput
		want   []spi.Image
	}{
		"AllClassesAreKnown": {"what no class refers to may go", spi.SweepImagesInput{Live: []spi.Image{live}}, []spi.Image{dead, unknown}},
		"OnlyTheDead":        {"what is not known stays", spi.SweepImagesInput{Live: []spi.Image{live}, Dead: []spi.Image{dead}}, []spi.Image{dead}},
		"DeadAndLive":        {"two classes have the same image", spi.SweepImagesInput{Live: []spi.Image{live}, Dead: []spi.Image{live, dead}}, []spi.Image{dead}},
		"NoneDead":           {"none is none, not all", spi.SweepImagesInput{Dead: []spi.Image{}}, nil},
		"WithoutImage":       {"a class may need no image", spi.SweepImagesInput{Live: []spi.Image{none}, Dead: []spi.Image{none, dead}}, []spi.Image{dead}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			which, err := selection(&tc.in, "ns")
			require.NoError(t, err)

			var got []spi.Image

			for _, image := range []spi.Image{live, dead, unknown} {
				made, err := render.GoldenImage(image, "ns")
				require.NoError(t, err)

				if which.MayGo(made.Name) {
					got = append(got, image)
				}
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestWhichImagesStayWithMachines(t *testing.T) {
	t.Parallel()

	vanished, deleted := imageOf(t, "https://h/vanished"), imageOf(t, "https://h/deleted")
	which, err := selection(&spi.SweepImagesInput{Dead: []spi.Image{vanished, deleted}, Vanished: []spi.Image{vanished}}, "ns")
	require.NoError(t, err)

	for image, want := range map[*spi.Image]bool{&vanished: true, &deleted: false} {
		made, err := render.GoldenImage(*image, "ns")
		require.NoError(t, err)
		require.True(t, which.MayGo(made.Name), "if no machine needs it")
		require.Equal(t, want, which.StaysWithMachines(made.Name))
	}
}
