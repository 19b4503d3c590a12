package kubevirt

import (
	"slices"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func classOf(class *v1alpha1.MachineClass) spi.Class {
	return spi.Class{Name: types.NamespacedName{Namespace: class.Namespace, Name: class.Name}, Deleted: class.DeletionTimestamp != nil}
}

// decodeImage returns the source of the golden image of a MachineClass; nil if the MachineClass cannot
// be decoded.
func (p *MachinePlugin) decodeImage(class *v1alpha1.MachineClass) *goldenimage.Source {
	arch := architecture(class)
	if !slices.Contains(architectures, arch) {
		return nil
	}

	spec, errs := apivalidation.Decode(class.ProviderSpec.Raw, p.options.Allowed)
	if len(errs) > 0 {
		return nil
	}

	return &goldenimage.Source{Spec: spec, Architecture: arch}
}
