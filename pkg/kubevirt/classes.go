package kubevirt

import (
	"context"
	"fmt"
	"slices"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Classes keeps book of the MachineClasses, by whose lives the golden images live. Requests tell it what they carry. It logs what
// goes wrong: a golden image that stays for too long is nothing that a Machine should fail for.
type Classes interface {
	Observer
	// Sweep deletes, within seconds, the golden images that no class refers to any more. It is called when a request for a class that
	// is being deleted has been carried out, since once the last class is gone, the process has not long to live; and after each
	// listing of machines, with which whoever knows classes from requests alone may find that another class has gone.
	Sweep(ctx context.Context, class *v1alpha1.MachineClass, secret *corev1.Secret)
}

// sweep has the golden images swept after a listing, or after a deletion that was for a class that is being deleted too. Deletions
// for other classes stay as cheap as they are.
func (p *MachinePlugin) sweep(ctx context.Context, class *v1alpha1.MachineClass, secret *corev1.Secret, listed bool) {
	if p.options.Classes != nil && (listed || class.DeletionTimestamp != nil) {
		p.options.Classes.Sweep(ctx, class, secret)
	}
}

// ClusterOf returns the cluster tag of a class: whose golden images it refers to. It is empty without valid tags. The second
// result says whether the class is of this provider.
func ClusterOf(class *v1alpha1.MachineClass) (cluster string, own bool) {
	if id := identityOf(class); id.Valid() {
		cluster = id.Cluster
	}

	return cluster, ours(class)
}

// DecodeImage reads what decides over the golden image of a class's machines, as DecodeCreateMachine does. Its error wraps
// spi.ErrInvalid.
func DecodeImage(class *v1alpha1.MachineClass, allowed apivalidation.Options) (*spi.Image, error) {
	arch := architecture(class)
	if !slices.Contains(architectures, arch) {
		return nil, unknownArchitecture(class)
	}

	spec, errs := apivalidation.Decode(class.ProviderSpec.Raw, allowed)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", spi.ErrInvalid, errs.ToAggregate())
	}

	return &spi.Image{Spec: spec, Architecture: arch}, nil
}
