package spi

import (
	"context"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// GoldenImages keeps the images that root volumes are cloned from on a provider cluster. Its methods set their own time limits,
// are safe for concurrent use, by several processes too, and converge when they are called again. They do not wait for imports.
// Errors wrap one of the package's sentinels and never carry secret bytes.
type GoldenImages interface {
	// EnsureImages creates those of the images that are not there, and replaces those that have failed for good: with an error that
	// wraps ErrConflict as long as one is on its way out. Specs that need no golden image are passed over. An image that cannot be
	// made does not keep the others; the error is the sum of all.
	EnsureImages(ctx context.Context, in *EnsureImagesInput) error
	// SweepImages deletes images that no class refers to and nothing is being cloned from. The result says what was done also when
	// there is an error.
	SweepImages(ctx context.Context, in *SweepImagesInput) (*SweepImagesResult, error)
}

// Image is what decides over the golden image of a MachineClass's machines.
type Image struct {
	// Spec is a valid ProviderSpec.
	Spec *v1alpha1.ProviderSpec
	// Architecture is the guest's CPU architecture, as in CreateMachineInput.
	Architecture string
}

// EnsureImagesInput says which images are to be there.
type EnsureImagesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Images may be of several classes, and the same may come twice. They are all of one shoot.
	Images []Image
}

// SweepImagesInput says which images may go.
type SweepImagesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Cluster is the value of the tag v1alpha1.TagCluster. Images of other shoots are never touched.
	Cluster string
	// Live are the images that are referred to. They stay.
	Live []Image
	// Dead, unless it is nil, are the only images that may go: whoever does not know all classes must not delete what it does
	// not know.
	Dead []Image
	// Vanished are images that no class refers to any more although none of them was seen being deleted: Gardener takes the finalizers
	// of all objects of a control plane that it moves to another seed, and the machines live on. They stay as long as a machine exists
	// that was made of them.
	Vanished []Image
}

// SweepImagesResult says what became of the images that no class refers to.
type SweepImagesResult struct {
	// Deleted are the names of the images that were deleted now.
	Deleted []string
	// InUse are the names of those that are still needed: sweep again later.
	InUse []string
}
