package goldenimage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// uses returns which of the images something is being cloned from, or will be: whoever's clones have not ended, and machines whose root
// volume is not complete, or all of its machines if it stays with them. What is being deleted needs nothing any more.
func uses(ctx context.Context, at Place, images []candidate, which Selection) (map[string]bool, error) {
	asked := map[string]bool{}
	for _, image := range images {
		asked[image.name] = true
	}

	all := providerapi.List{What: "DataVolumes in " + at.Clients.Namespace}

	clones, err := providerapi.Collect(ctx, at.Clients, at.dataVolumes(), all, func(dv *cdiv1beta1.DataVolume) (clone, bool) {
		return cloneOf(dv), asked[sourceIn(dv)] && dv.DeletionTimestamp == nil
	})
	if err != nil {
		return nil, err
	}

	used, served := map[string]bool{}, map[types.UID]bool{}

	for _, c := range clones {
		switch {
		case !c.complete:
			used[c.source] = true
		case !which.StaysWithMachines(c.source):
			served[c.machine] = true
		}
	}

	return used, usedByMachines(ctx, at, asked, served, used)
}

// usedByMachines adds the images of machines that are not served yet. It looks at them after the DataVolumes: a machine that came in
// between is in use, since its disk was not seen.
func usedByMachines(ctx context.Context, at Place, asked map[string]bool, served map[types.UID]bool, used map[string]bool) error {
	list := providerapi.List{What: "VirtualMachines in " + at.Clients.Namespace, Labels: v1alpha1.LabelGoldenImage}

	waiting, err := providerapi.Collect(ctx, at.Clients, at.metadata(virtualMachines), list, func(vm metav1.Object) (image string, ok bool) {
		image = vm.GetLabels()[v1alpha1.LabelGoldenImage]

		return image, asked[image] && vm.GetDeletionTimestamp() == nil && !served[vm.GetUID()]
	})

	for _, image := range waiting {
		used[image] = true
	}

	return err
}

// clone is what is kept of a DataVolume that is cloned from an image.
type clone struct {
	source   string
	complete bool
	// machine is the VirtualMachine whose root volume it is; empty if it is another's.
	machine types.UID
}

func cloneOf(dv *cdiv1beta1.DataVolume) clone {
	c := clone{source: sourceIn(dv), complete: dv.Status.Phase == cdiv1beta1.Succeeded}

	if owner := metav1.GetControllerOf(dv); owner != nil && dv.Labels[v1alpha1.LabelGoldenImage] == c.source {
		c.machine = owner.UID
	}

	return c
}

// sourceIn returns the name of the claim in its own namespace that a DataVolume is cloned from; empty if there is none.
func sourceIn(clone *cdiv1beta1.DataVolume) string {
	if clone.Spec.Source == nil || clone.Spec.Source.PVC == nil {
		return ""
	}

	if from := clone.Spec.Source.PVC.Namespace; from != "" && from != clone.Namespace {
		return ""
	}

	return clone.Spec.Source.PVC.Name
}
