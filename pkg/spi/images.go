package spi

import (
	"context"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// GoldenImages manages the images that root volumes are cloned from on a provider cluster. Its
// methods set their own time limits, are safe for concurrent use, even by several processes, and
// converge when they are called again. They do not wait for imports. Errors wrap one of the
// package's sentinels and never contain secret bytes.
type GoldenImages interface {
	// EnsureImages creates missing images and replaces images that have failed
	// permanently; while one of these is being deleted, the error wraps ErrConflict. Specs
	// that need no golden image are skipped. An image that cannot be created does not
	// affect the others; the error joins all errors.
	EnsureImages(ctx context.Context, in *EnsureImagesInput) error
	// SweepImages deletes images that no class refers to and that are not being cloned. The result
	// is valid even if there is an error.
	SweepImages(ctx context.Context, in *SweepImagesInput) (*SweepImagesResult, error)
}

// Image determines the golden image of a MachineClass's machines.
type Image struct {
	// Spec is a valid ProviderSpec.
	Spec *v1alpha1.ProviderSpec
	// Architecture is the guest's CPU architecture, as in CreateMachineInput.
	Architecture string
}

// EnsureImagesInput lists the images that must exist.
type EnsureImagesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Images may belong to several classes, and may contain
	// duplicates. They all belong to one shoot.
	Images []Image
}

// SweepImagesInput determines the images that may be deleted.
type SweepImagesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Cluster is the value of the tag v1alpha1.TagCluster. Images of
	// other shoots are never touched.
	Cluster string
	// Live are the images that classes refer to. They are kept.
	Live []Image
	// Dead, unless it is nil, are the only images that may be deleted: a caller that does not know
	// all classes must not delete images that it does not know.
	Dead []Image
	// Vanished are images that no class refers to any more although no class was observed
	// being deleted: when Gardener moves a control plane to another seed, it removes the
	// finalizers of all its objects, and the machines live on. They are kept as long as a
	// machine exists that was made from them.
	Vanished []Image
}

// SweepImagesResult is the outcome for the images that no class refers to.
type SweepImagesResult struct {
	// Deleted are the names of the images that this call has deleted.
	Deleted []string
	// InUse are the names of the images that are still needed: sweep again later.
	InUse []string
}
