// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// UpdateMachineImagesStatus implements genericactuator.WorkerDelegate: it records the images in
// use, so that they can be removed from the CloudProfile, and the pools whose machines cannot be live-migrated.
func (d *delegate) UpdateMachineImagesStatus(ctx context.Context) error {
	w, err := d.generated(ctx)
	if err != nil {
		return err
	}

	if equality.Semantic.DeepEqual(d.status.MachineImages, w.images) && equality.Semantic.DeepEqual(d.status.NotMigratable, w.notMigratable) {
		return nil
	}

	before := d.worker.DeepCopy()
	d.status.TypeMeta = api.TypeMeta("WorkerStatus")
	d.status.MachineImages = w.images
	d.status.NotMigratable = w.notMigratable
	d.worker.Status.ProviderStatus = &runtime.RawExtension{Object: &d.status}

	return d.seed.Status().Patch(ctx, d.worker, client.MergeFrom(before))
}

// appendImage adds an image, unless it is listed already.
func appendImage(images []api.MachineImage, image *api.MachineImage) []api.MachineImage {
	recorded := *image.DeepCopy()
	if recorded.SourceURL == "" {
		recorded.SourceURL = recorded.Source.SourceURL
	}

	if slices.ContainsFunc(images, func(known api.MachineImage) bool { return equality.Semantic.DeepEqual(known, recorded) }) {
		return images
	}

	return append(images, recorded)
}
