// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// inUse returns the images that an object needs: a VirtualMachine that was created from the image,
// or another DataVolume whose clone is in progress. Objects that are being deleted do not need an
// image. VirtualMachines are listed last, to include those created in the meantime.
func inUse(ctx context.Context, c *providerapi.Clients, images []candidate) (map[string]bool, error) {
	asked := map[string]bool{}
	for _, image := range images {
		asked[image.name] = true
	}

	// Only the name of the needed image is kept of each DataVolume and VirtualMachine.
	used := map[string]bool{}

	_, err := providerapi.Collect(ctx, c, dataVolumes(c), providerapi.List{Description: "DataVolumes in " + c.Namespace},
		func(dv *cdiv1beta1.DataVolume) (kept struct{}, ok bool) {
			if asked[sourceOf(dv)] && clonesForOthers(dv) {
				used[sourceOf(dv)] = true
			}

			return kept, false
		})
	if err != nil {
		return nil, err
	}

	_, err = OfMachines(ctx, c, func(image string, vm metav1.Object) bool {
		if asked[image] && vm.GetDeletionTimestamp() == nil {
			used[image] = true
		}

		return false
	})

	return used, err
}

// OfMachines lists the VirtualMachines that were created from golden images, and returns the names
// of the images that keep selects.
func OfMachines(ctx context.Context, c *providerapi.Clients, keep func(image string, vm metav1.Object) bool) ([]string, error) {
	return providerapi.Collect(ctx, c, metadataOf(c, virtualMachineResource),
		providerapi.List{Description: "VirtualMachines in " + c.Namespace, Labels: v1alpha1.LabelGoldenImage},
		func(vm metav1.Object) (string, bool) {
			image := vm.GetLabels()[v1alpha1.LabelGoldenImage]

			return image, keep(image, vm)
		})
}

// clonesForOthers reports whether a DataVolume is a clone in progress, but not the disk of a machine.
// The garbage collector may delete such a disk shortly after its VirtualMachine.
func clonesForOthers(dv *cdiv1beta1.DataVolume) bool {
	ofMachine := metav1.GetControllerOf(dv) != nil && dv.Labels[v1alpha1.LabelGoldenImage] == sourceOf(dv)

	return dv.DeletionTimestamp == nil && dv.Status.Phase != cdiv1beta1.Succeeded && !ofMachine
}

// sourceOf returns the name of the claim from which a DataVolume is cloned. It is empty if there is no
// such claim in the DataVolume's namespace.
func sourceOf(clone *cdiv1beta1.DataVolume) string {
	if clone.Spec.Source == nil || clone.Spec.Source.PVC == nil {
		return ""
	}

	if from := clone.Spec.Source.PVC.Namespace; from != "" && from != clone.Namespace {
		return ""
	}

	return clone.Spec.Source.PVC.Name
}
