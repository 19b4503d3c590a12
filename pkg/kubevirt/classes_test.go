package kubevirt_test

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// bookkeeper notes what the plugin tells of classes, and when.
type bookkeeper struct {
	recorder

	notes []string
}

func (b *bookkeeper) DeleteMachine(ctx context.Context, in *spi.DeleteMachineInput) error {
	b.notes = append(b.notes, "delete")

	return b.recorder.DeleteMachine(ctx, in)
}

func (b *bookkeeper) ListMachines(ctx context.Context, in *spi.ListMachinesInput) ([]spi.Machine, error) {
	b.notes = append(b.notes, "list")

	return b.recorder.ListMachines(ctx, in)
}

func (b *bookkeeper) CreateMachine(ctx context.Context, in *spi.CreateMachineInput) (*spi.Machine, error) {
	b.notes = append(b.notes, "create")

	return b.recorder.CreateMachine(ctx, in)
}

func (b *bookkeeper) Seen(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	b.notes = append(b.notes, "seen "+class.Name+" "+string(secret.Data["kubeconfig"]))
}

func (b *bookkeeper) Sweep(_ context.Context, class *v1alpha1.MachineClass, secret *corev1.Secret) {
	b.notes = append(b.notes, "sweep "+class.Name+" "+string(secret.Data["kubeconfig"]))
}

// TestClassesAreKeptBookOf requires the golden images to be swept after a listing, and after a deletion for a class that
// is being deleted.
func TestClassesAreKeptBookOf(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, method string
		deleted        bool
		err            error
		want           []string
	}{
		"Create":       {"", "CreateMachine", false, nil, []string{"seen class k", "create"}},
		"CreateOfDead": {"nothing is deleted where something is made", "CreateMachine", true, nil, []string{"seen class k", "create"}},
		"Delete":       {"the class lives", "DeleteMachine", false, nil, []string{"seen class k", "delete"}},
		"DeleteOfDead": {"its clone is gone", "DeleteMachine", true, nil, []string{"seen class k", "delete", "sweep class k"}},
		"DeleteFailed": {"its clone is there", "DeleteMachine", true, spi.ErrTimeout, []string{"seen class k", "delete"}},
		"List":         {"another class may have gone", "ListMachines", false, nil, []string{"seen class k", "list", "sweep class k"}},
		"ListOfDead":   {"it may be the last call", "ListMachines", true, nil, []string{"seen class k", "list", "sweep class k"}},
		"ListFailed":   {"the provider cluster is out of reach", "ListMachines", true, spi.ErrUnavailable, []string{"seen class k", "list"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r, b := validRequest(), &bookkeeper{recorder: recorder{err: tc.err}}
			if tc.deleted {
				r.class.DeletionTimestamp = ptr.To(metav1.Now())
			}

			p := kubevirt.New(b, kubevirt.Options{CreationTimeout: 20 * time.Minute, CSIDriverName: "csi.kubevirt.io", Classes: b})
			require.Equal(t, tc.err != nil, calls()[tc.method](t.Context(), p, r) != nil, tc.reason)
			require.Equal(t, tc.want, b.notes, tc.reason)
		})
	}
}

// TestImagesOfClasses reads what decides over golden images from classes, good and bad.
func TestImagesOfClasses(t *testing.T) {
	t.Parallel()

	class := validRequest().class

	cluster, own := kubevirt.ClusterOf(class)
	require.True(t, own)
	require.Equal(t, "c", cluster)

	image, err := kubevirt.DecodeImage(class, validation.Options{})
	require.NoError(t, err)
	require.Equal(t, "arm64", image.Architecture)
	require.Equal(t, "image", image.Spec.RootVolume.Source.PVC.Name)

	class.NodeTemplate.Architecture = ptr.To("vax")
	_, err = kubevirt.DecodeImage(class, validation.Options{})
	require.ErrorIs(t, err, spi.ErrInvalid)
	require.ErrorContains(t, err, "vax")

	class.NodeTemplate, class.Provider, class.ProviderSpec.Raw = nil, "aws", []byte(`{"region":7}`)
	_, err = kubevirt.DecodeImage(class, validation.Options{})
	require.ErrorIs(t, err, spi.ErrInvalid)

	cluster, own = kubevirt.ClusterOf(class)
	require.False(t, own)
	require.Empty(t, cluster)
}
