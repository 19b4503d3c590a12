// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classRecorder records the MachineClass of the last call.
type classRecorder struct {
	recorder

	class spi.Class
	image *goldenimage.Source
}

func (r *classRecorder) CreateMachine(ctx context.Context, in *spi.CreateMachineInput) (*spi.Machine, error) {
	r.class = in.Class
	r.image = ptr.To(in.Image())

	return r.recorder.CreateMachine(ctx, in)
}

func (r *classRecorder) DeleteMachine(ctx context.Context, in *spi.DeleteMachineInput) error {
	r.class = in.Class
	r.image = in.Image

	return r.recorder.DeleteMachine(ctx, in)
}

func (r *classRecorder) ListMachines(ctx context.Context, in *spi.ListMachinesInput) ([]spi.Machine, error) {
	r.class = in.Class
	r.image = in.Image

	return r.recorder.ListMachines(ctx, in)
}

// TestMachinePlugin_PassesMachineClass requires the calls on which golden images depend to carry the MachineClass.
func TestMachinePlugin_PassesMachineClass(t *testing.T) {
	t.Parallel()

	for _, method := range []string{"CreateMachine", "DeleteMachine", "ListMachines"} {
		for _, deleted := range []bool{false, true} {
			t.Run(method, func(t *testing.T) {
				t.Parallel()

				req := validRequest()
				recorded := &classRecorder{}
				if deleted {
					req.class.DeletionTimestamp = ptr.To(metav1.Now())
				}

				p := kubevirt.New(recorded, kubevirt.Options{CreationTimeout: 20 * time.Minute})
				require.NoError(t, calls()[method](t.Context(), p, req))
				require.Equal(t, spi.Class{Name: types.NamespacedName{Namespace: req.class.Namespace, Name: "class"}, Deleted: deleted}, recorded.class)
				require.Equal(t, "arm64", recorded.image.Architecture)
				require.Equal(t, "image", recorded.image.Spec.RootVolume.Source.PVC.Name)
			})
		}
	}
}

// TestMachinePlugin_UndecodableImage deletes and lists machines of a MachineClass whose image can no
// longer be decoded.
func TestMachinePlugin_UndecodableImage(t *testing.T) {
	t.Parallel()

	req := validRequest()
	recorded := &classRecorder{image: &goldenimage.Source{}}
	req.class.NodeTemplate.Architecture = ptr.To("vax")

	p := kubevirt.New(recorded, kubevirt.Options{CreationTimeout: 20 * time.Minute})
	require.NoError(t, calls()["DeleteMachine"](t.Context(), p, req))
	require.Nil(t, recorded.image)

	recorded.image = &goldenimage.Source{}
	req.class.NodeTemplate = nil
	req.class.ProviderSpec.Raw = []byte(`{"region":7,"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`)
	require.NoError(t, calls()["ListMachines"](t.Context(), p, req))
	require.False(t, recorded.image.Spec.UsesGoldenImage())
}
