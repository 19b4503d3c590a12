package providercluster

import (
	"context"
	"errors"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

var _ spi.GoldenImages = (*Provider)(nil)

// EnsureImages implements spi.GoldenImages. What keeps one image from being made does not keep the others.
func (p *Provider) EnsureImages(ctx context.Context, in *spi.EnsureImagesInput) error {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return err
	}

	images, err := rendered(in.Images, s.clients.Namespace)
	if err != nil {
		return err
	}

	var errs []error
	for _, image := range images {
		errs = append(errs, imageInUsersTerms(p.options.Images.Ensure(ctx, s.place(), image)))
	}

	return errors.Join(errs...)
}

// SweepImages implements spi.GoldenImages.
func (p *Provider) SweepImages(ctx context.Context, in *spi.SweepImagesInput) (*spi.SweepImagesResult, error) {
	// Images have no role; the tag is judged as an identity with any.
	if !(spi.Identity{Cluster: in.Cluster, Role: in.Cluster}).Valid() {
		return &spi.SweepImagesResult{}, fmt.Errorf("%w: sweeping golden images needs the cluster tag", spi.ErrInvalid)
	}

	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return &spi.SweepImagesResult{}, err
	}

	which, err := selection(in, s.clients.Namespace)
	if err != nil {
		return &spi.SweepImagesResult{}, err
	}

	result, err := p.options.Images.Sweep(ctx, s.place(), which)

	return &spi.SweepImagesResult{Deleted: result.Deleted, InUse: result.InUse}, err
}

func selection(in *spi.SweepImagesInput, namespace string) (goldenimage.Selection, error) {
	live, err := rendered(in.Live, namespace)
	if err != nil {
		return goldenimage.Selection{}, err
	}

	dead, err := rendered(in.Dead, namespace)
	if err != nil {
		return goldenimage.Selection{}, err
	}

	vanished, err := rendered(in.Vanished, namespace)
	if err != nil {
		return goldenimage.Selection{}, err
	}

	return goldenimage.Selection{
		Cluster:           in.Cluster,
		MayGo:             func(name string) bool { return live[name] == nil && (in.Dead == nil || dead[name] != nil) },
		NameOf:            render.GoldenImageName,
		StaysWithMachines: func(name string) bool { return vanished[name] != nil },
	}, nil
}

// rendered returns the images that the specs need, by their names.
func rendered(images []spi.Image, namespace string) (map[string]*cdiv1beta1.DataVolume, error) {
	byName := map[string]*cdiv1beta1.DataVolume{}

	for _, image := range images {
		if !image.Spec.UsesGoldenImage() {
			continue
		}

		made, err := render.GoldenImage(image, namespace)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", spi.ErrInvalid, err)
		}

		byName[made.Name] = made
	}

	return byName, nil
}

func (s *session) place() goldenimage.Place {
	return goldenimage.Place{Clients: s.clients}
}

// holdImage makes sure that what the machine is cloned from is there, and stays until release is called.
func (p *Provider) holdImage(ctx context.Context, s *session, in *spi.CreateMachineInput) (release func(), err error) {
	if !in.Spec.UsesGoldenImage() {
		return func() {}, nil
	}

	image, err := render.GoldenImage(in.Image(), s.clients.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", spi.ErrInvalid, err)
	}

	release, err = p.options.Images.Hold(ctx, s.place(), image)
	if err != nil {
		return nil, imageInUsersTerms(err)
	}

	in.Report.Tell(spi.Progress{
		Reason: "GoldenImageEnsured", Message: "golden image " + s.path(image.Name) + ", which the machine is cloned from, is there or being imported",
	})

	return release, nil
}

// repairImage makes sure that what the machine waits for is there, and makes it again if somebody has deleted it: another process
// whose sweep did not see this machine, or a person. An image that has failed is replaced.
func (p *Provider) repairImage(ctx context.Context, s *session, in *spi.ObserveMachineInput, seen *sighting) error {
	image, err := p.awaitedImage(s, in, seen)
	if err != nil || image == nil {
		return err
	}

	if seen.fresh {
		if err := p.observeImage(ctx, s, seen, image); err != nil {
			return err
		}
	}

	release, err := p.options.Images.Hold(ctx, s.place(), image)
	if err != nil {
		return imageInUsersTerms(err)
	}

	release()

	return nil
}

// observeImage tells the keeper what was just seen of an image.
func (p *Provider) observeImage(ctx context.Context, s *session, seen *sighting, image *cdiv1beta1.DataVolume) error {
	if seen.missing == image.Name {
		p.options.Images.Missed(s.place(), image.Name)
		// What was said of its absence is over.
		p.files.keep(seen.VirtualMachine.UID, stepOf(seen.Instance), finding{})
		seen.forget()
	}

	for i := range seen.Images {
		if have := &seen.Images[i]; have.Name == image.Name && have.Namespace == image.Namespace {
			return p.options.Images.Observe(ctx, s.place(), have, image)
		}
	}

	return nil
}

// awaitedImage returns the golden image that the machine's root volume still has to be cloned from, or nil. A class that says another
// one now is not the one that the machine was made of.
func (p *Provider) awaitedImage(s *session, in *spi.ObserveMachineInput, seen *sighting) (*cdiv1beta1.DataVolume, error) {
	if in.Image == nil || !in.Image.Spec.UsesGoldenImage() || p.initialized(seen.Instance) || stepOf(seen.Instance) != "" {
		return nil, nil //nolint:nilnil // Most machines wait for no image, and the caller handles it.
	}

	image, err := render.GoldenImage(*in.Image, s.clients.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", spi.ErrInvalid, err)
	}

	if !clonedFrom(seen.VirtualMachine, image.Name) {
		return nil, nil //nolint:nilnil // Most machines wait for no image, and the caller handles it.
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

// arrived takes note that the machine's image is complete, if it is cloned from one.
func (p *Provider) arrived(ctx context.Context, s *session, vm *kubevirtv1.VirtualMachine) {
	if image := vm.Labels[v1alpha1.LabelGoldenImage]; image != "" {
		p.options.Images.Arrived(ctx, s.place(), image)
	}
}
