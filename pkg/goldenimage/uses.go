package goldenimage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// uses returns the names of the claims in the namespace that something is being cloned from, or will be: whoever's clones have not
// ended, and machines whose root volume is not complete. What is being deleted needs nothing any more.
func uses(ctx context.Context, at Place) (map[string]bool, error) {
	used, served := map[string]bool{}, map[types.UID]bool{}

	err := at.Request(ctx, "list DataVolumes in "+at.Clients.Namespace, func(ctx context.Context) error {
		return at.eachDataVolume(ctx, func(clone *cdiv1beta1.DataVolume) {
			source := sourceIn(clone)

			switch complete := clone.Status.Phase == cdiv1beta1.Succeeded; {
			case source == "" || clone.DeletionTimestamp != nil:
			case !complete:
				used[source] = true
			case clone.Labels[v1alpha1.LabelGoldenImage] == source && metav1.GetControllerOf(clone) != nil:
				served[metav1.GetControllerOf(clone).UID] = true
			}
		})
	})
	if err != nil {
		return nil, err
	}

	// After the DataVolumes: a machine that came in between is in use, since its disk was not seen.
	return used, at.Request(ctx, "list VirtualMachines in "+at.Clients.Namespace, func(ctx context.Context) error {
		return at.eachMetadata(ctx, virtualMachines, v1alpha1.LabelGoldenImage, func(vm metav1.Object) {
			if vm.GetDeletionTimestamp() == nil && !served[vm.GetUID()] {
				used[vm.GetLabels()[v1alpha1.LabelGoldenImage]] = true
			}
		})
	})
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

// eachDataVolume visits all DataVolumes of the namespace, page by page.
func (p Place) eachDataVolume(ctx context.Context, visit func(*cdiv1beta1.DataVolume)) error {
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return p.dataVolumes().List(ctx, opts)
	})

	return pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		clone, ok := object.(*cdiv1beta1.DataVolume)
		if !ok {
			return fmt.Errorf("read DataVolume: unexpected type %T", object)
		}

		visit(clone)

		return nil
	})
}
