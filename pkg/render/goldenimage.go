// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// cloneImage makes the machine's root volume a clone of a golden image, in its own size. Only the import
// of the image uses the service account, which KubeVirt up to 1.9 does not know here.
func cloneImage(vm *kubevirtv1.VirtualMachine, image string) {
	root := &vm.Spec.DataVolumeTemplates[0]
	root.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: vm.Namespace, Name: image}}
	root.Spec.ServiceAccountName = ""

	root.Labels[v1alpha1.LabelGoldenImage] = image
	vm.Labels[v1alpha1.LabelGoldenImage] = image
}

// ImageInTermsOfProviderSpec returns CDI's message about a golden image with its fields replaced by
// those of the ProviderSpec.
func ImageInTermsOfProviderSpec(message string) string {
	return fieldPath.ReplaceAllStringFunc(message, func(match string) string {
		at := strings.Index(match, "spec.")
		if at < 0 {
			return match
		}

		return match[:at] + "providerSpec.rootVolume." + match[at+len("spec."):]
	})
}
