// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gardener/gardener/extensions/pkg/util"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// createImages creates the golden images of all pools, also of those without machines, so that the
// first machine of a pool starts soon.
func (d *delegate) createImages(ctx context.Context) error {
	images, err := d.goldenImages(ctx)
	if err != nil || len(images) == 0 {
		return err
	}

	provider, err := d.providerCluster(ctx)
	if err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(images)) {
		if err := d.createImage(ctx, provider, images[name]); err != nil && !apierrors.IsAlreadyExists(err) {
			return util.DetermineError(fmt.Errorf("create golden image %s: %w", name, err), errorcodes.Known)
		}
	}

	return nil
}

// createImage creates an image that does not exist. One of a Shoot of another landscape has the same name if both
// have the same technical ID.
func (d *delegate) createImage(ctx context.Context, provider *providercluster.Cluster, image *cdiv1beta1.DataVolume) error {
	existing := &cdiv1beta1.DataVolume{}

	err := provider.Get(ctx, client.ObjectKeyFromObject(image), existing)
	if apierrors.IsNotFound(err) {
		if err := d.record(ctx); err != nil {
			return err
		}

		return provider.Create(ctx, image)
	}

	if owner := ownership.Of(d.cluster.Shoot); err == nil && owner.IsForeign(existing) {
		return owner.Foreign("it", existing)
	}

	return err
}

// goldenImages returns the golden images that the desired classes use, by name.
func (d *delegate) goldenImages(ctx context.Context) (map[string]*cdiv1beta1.DataVolume, error) {
	w, err := d.generated(ctx)
	if err != nil {
		return nil, err
	}

	namespace, err := d.namespace(ctx)
	if err != nil {
		return nil, err
	}

	images := map[string]*cdiv1beta1.DataVolume{}

	for _, c := range w.classes {
		if !c.spec.UsesGoldenImage() {
			continue
		}

		image, err := goldenimage.Source{Spec: c.spec, Architecture: c.architecture}.DataVolume(namespace)
		if err != nil {
			return nil, fmt.Errorf("golden image of MachineClass %s: %w", c.object.Name, err)
		}

		images[image.Name] = image
	}

	return images, nil
}

// deleteImages deletes the golden images of the shoot, except those to be kept and those of existing
// virtual machines: their disks may still be cloned.
func (d *delegate) deleteImages(ctx context.Context, keep sets.Set[string]) error {
	provider, err := d.providerCluster(ctx)
	if err != nil {
		return err
	}

	namespace, err := d.namespace(ctx)
	if err != nil {
		return err
	}

	ofShoot := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{providerspec.TagCluster: d.cluster.Shoot.Status.TechnicalID}}

	images, err := provider.ListMetadata(ctx, cdiv1beta1.SchemeGroupVersion.WithKind("DataVolume"), func(dv *metav1.PartialObjectMetadata) bool {
		return goldenimage.Is(dv, d.cluster.Shoot.Status.TechnicalID)
	}, append(ofShoot, client.HasLabels{providerspec.LabelGoldenImage})...)
	if err != nil {
		return util.DetermineError(fmt.Errorf("list golden images: %w", err), errorcodes.Known)
	}

	machines, err := provider.ListMetadata(ctx, kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachine"), nil, ofShoot...)
	if err != nil {
		return util.DetermineError(fmt.Errorf("list virtual machines: %w", err), errorcodes.Known)
	}

	// machine-controller-manager deleted all machines: it does not know these.
	if names := namesOf(d.own(machines)); d.deleting() && len(names) > 0 {
		return fmt.Errorf("virtual machines of the shoot remain in namespace %s of the provider cluster: %s; delete them", namespace, providercluster.Names(names))
	}

	keep = keep.Clone().Insert(imagesOf(machines)...)

	images = d.own(images)

	for i := range images {
		image := &images[i]
		if keep.Has(image.Name) {
			continue
		}

		if err := provider.Delete(ctx, image, client.Preconditions{UID: &image.UID}); client.IgnoreNotFound(err) != nil {
			return util.DetermineError(fmt.Errorf("delete golden image %s: %w", image.Name, err), errorcodes.Known)
		}
	}

	return nil
}

// own returns the objects that do not belong to a Shoot of another landscape with the same technical ID.
func (d *delegate) own(objects []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	return slices.DeleteFunc(slices.Clone(objects), func(object metav1.PartialObjectMetadata) bool {
		return ownership.Of(d.cluster.Shoot).IsForeign(&object)
	})
}

func namesOf(objects []metav1.PartialObjectMetadata) []string {
	var names []string
	for i := range objects {
		names = append(names, objects[i].Name)
	}

	return names
}

// imagesOf returns the golden images of virtual machines.
func imagesOf(machines []metav1.PartialObjectMetadata) []string {
	var names []string
	for i := range machines {
		names = append(names, machines[i].Labels[providerspec.LabelGoldenImage])
	}

	return names
}
