// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"

	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classOf returns a MachineClass for the registry of golden images.
func classOf(id spi.Identity, class spi.Class, image *goldenimage.Source) images.Class {
	observed := images.Class{Cluster: id.Cluster, Name: class.Name, Deleted: class.Deleted, ShootUID: class.ShootUID}

	if image == nil || !image.Spec.UsesGoldenImage() {
		return observed
	}

	if name, err := image.Name(); err == nil {
		observed.Image = name
	}

	return observed
}

// holdImage creates the golden image of a machine unless it exists. The image is not deleted until
// release is called, which is never nil.
func (m *Machines) holdImage(ctx context.Context, c *providerapi.Clients, in *spi.CreateMachineInput) (release func(), err error) {
	nothing := func() {}

	if !in.Spec.UsesGoldenImage() {
		return nothing, nil
	}

	image, err := in.Image().DataVolume(c.Namespace)
	if err != nil {
		return nothing, spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	m.images.RegisterClass(classOf(in.Identity(), in.Class, ptr.To(in.Image())))

	release, err = m.images.Hold(ctx, c, image)
	if err != nil {
		return nothing, imageInProviderSpecTerms(err)
	}

	in.Report.Send(spi.Progress{
		Reason:  "GoldenImageEnsured",
		Message: "golden image " + c.Path(image.Name) + ", which the machine is cloned from, exists or is being imported",
	})

	return release, nil
}

// repairImage recreates the golden image that a machine waits for, if it was deleted externally or
// by a sweep of another process that did not see this machine. It replaces an image that has
// failed, or whose claim exceeded a quota.
func (m *Machines) repairImage(ctx context.Context, c *providerapi.Clients, in *spi.ObserveMachineInput, seen *evidence) error {
	image, err := m.awaitedImage(c, in, seen)
	if err != nil || image == nil {
		return err
	}

	if seen.fresh {
		if err := m.observeImage(ctx, c, seen, image); err != nil {
			return err
		}
	}

	release, err := m.images.Hold(ctx, c, image)
	if err != nil {
		return imageInProviderSpecTerms(err)
	}

	release()

	return nil
}

// observeImage updates the state of an image from the evidence.
func (m *Machines) observeImage(ctx context.Context, c *providerapi.Clients, seen *evidence, image *cdiv1beta1.DataVolume) error {
	if seen.missing == image.Name {
		m.images.Forget(c, image.Name)
		// The diagnosis of its absence is outdated.
		m.keep(seen, evidence{})
	}

	for i := range seen.Images {
		if have := &seen.Images[i]; have.Name == image.Name && have.Namespace == image.Namespace {
			return m.judgeImage(ctx, c, seen, have, image)
		}
	}

	return nil
}

// judgeImage updates the state of an image from a DataVolume. An image whose claim exceeds a quota is
// created again only after that was reported: each attempt begins a new grace period, so that a longer
// one would never end. Without the permission to delete it, the quota remains the reported cause, and
// CDI's own attempts remain.
func (m *Machines) judgeImage(ctx context.Context, c *providerapi.Clients, seen *evidence, have, want *cdiv1beta1.DataVolume) error {
	if err := m.images.Observe(ctx, c, have, want); err != nil || m.reported(seen) == "" {
		return err
	}

	if err := m.images.RetryRefused(ctx, c, have); !errors.Is(err, spi.ErrForbidden) {
		return err
	}

	return nil
}

// awaitedImage returns the golden image from which the root volume of a machine has yet to be
// cloned, or nil. If the MachineClass was changed to another image, the machine does not wait for
// the new image.
func (m *Machines) awaitedImage(c *providerapi.Clients, in *spi.ObserveMachineInput, seen *evidence) (*cdiv1beta1.DataVolume, error) {
	if in.Image == nil || !in.Image.Spec.UsesGoldenImage() || initialized(seen.VirtualMachine, seen.Instance, m.options.NeedAddress) || stepOf(seen.Instance) != "" {
		return nil, nil //nolint:nilnil // Most machines wait for no image; the caller handles nil.
	}

	image, err := in.Image.DataVolume(c.Namespace)
	if err != nil {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	if !clonedFrom(seen.VirtualMachine, image.Name) {
		return nil, nil //nolint:nilnil // Most machines wait for no image; the caller handles nil.
	}

	return image, nil
}

func clonedFrom(vm *kubevirtv1.VirtualMachine, image string) bool {
	for i := range vm.Spec.DataVolumeTemplates {
		source := vm.Spec.DataVolumeTemplates[i].Spec.Source
		if source != nil && source.PVC != nil && source.PVC.Name == image && source.PVC.Namespace == vm.Namespace {
			return true
		}
	}

	return false
}

// arrived records that the golden image of a machine is complete, if the machine has one.
func (m *Machines) arrived(ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine) {
	if image := vm.Labels[v1alpha1.LabelGoldenImage]; image != "" {
		m.images.CloneCompleted(ctx, c, image)
	}
}
