package goldenimage

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// attempts bounds how often an image that changes meanwhile, as one that is being imported does, is looked at again before it is left
// to the next sweep.
const attempts = 5

// Selection says which images may go.
type Selection struct {
	// Cluster is the value of the tag v1alpha1.TagCluster.
	Cluster string
	// MayGo decides by an image's name.
	MayGo func(name string) bool
	// NameOf returns the name of the image that has a key (v1alpha1.AnnotationGoldenImageKey).
	NameOf func(key string) string
	// StaysWithMachines says of an image that may go whether it stays as long as there is a machine that was made of it. Others stay
	// only as long as something is being cloned from them.
	StaysWithMachines func(name string) bool
}

// Result says what became of them.
type Result struct {
	// Deleted and InUse are names of images, sorted.
	Deleted, InUse []string
}

// Sweep deletes the shoot's images that may go and that nothing is being cloned from. An error of one image does not keep the
// others; the result is of use with an error too.
func (k *Keeper) Sweep(ctx context.Context, at Place, which Selection) (*Result, error) {
	result := &Result{}

	found, err := candidates(ctx, at, which)
	if err != nil || len(found) == 0 {
		return result, err
	}

	// From the look at what is in use to the deletions, nobody in this process makes a machine from one of them.
	claimed, release := k.claim(at, found, result)
	defer release()

	used, err := uses(ctx, at, claimed, which)
	if err != nil {
		return result, err
	}

	var errs []error

	for _, image := range claimed {
		if used[image.name] {
			result.InUse = append(result.InUse, image.name)
		} else if err := k.sweep(ctx, at, image, which, result); err != nil {
			errs = append(errs, err)
		}
	}

	slices.Sort(result.InUse)
	slices.Sort(result.Deleted)

	return result, errors.Join(errs...)
}

// candidate is what is kept of an image that may go.
type candidate struct {
	name, version string
	uid           types.UID
}

func candidateOf(image metav1.Object) candidate {
	return candidate{name: image.GetName(), version: image.GetResourceVersion(), uid: image.GetUID()}
}

// candidates lists the images that may go. Those that are going already do not count.
func candidates(ctx context.Context, at Place, which Selection) ([]candidate, error) {
	list := providerapi.List{
		What:   "golden images in " + at.Clients.Namespace,
		Labels: labels.Set{v1alpha1.TagCluster: which.Cluster}.String() + "," + v1alpha1.LabelGoldenImage + ",!" + v1alpha1.TagRole,
	}

	return providerapi.Collect(ctx, at.Clients, at.metadata(dataVolumes), list, func(image metav1.Object) (candidate, bool) {
		return candidateOf(image), is(image, which) && image.GetDeletionTimestamp() == nil
	})
}

// is says whether an object is an image that may go. A sweep reads metadata only, so a spec is not compared. What protects other
// objects is that an image carries this shoot's tag, a label with its own name, and a key of which that name is a hash: a clone has the
// label, but not the name, and a copy under another name has another hash. What has all three can only be made on purpose, and deleting
// it takes nothing from a machine. Nor does it go if the key is that of an image that is referred to, or while something is cloned from it.
func is(image metav1.Object, which Selection) bool {
	_, role := image.GetLabels()[v1alpha1.TagRole]
	key := image.GetAnnotations()[v1alpha1.AnnotationGoldenImageKey]

	return !role && key != "" && which.NameOf(key) == image.GetName() &&
		image.GetLabels()[v1alpha1.TagCluster] == which.Cluster &&
		image.GetLabels()[v1alpha1.LabelGoldenImage] == image.GetName() && which.MayGo(image.GetName())
}

// claim holds the images alone that nobody makes a machine from at this moment. The others are in use.
func (k *Keeper) claim(at Place, found []candidate, result *Result) (claimed []candidate, release func()) {
	var releases []func()

	for _, image := range found {
		if done, ok := k.images.claim(at.ref(image.name)); ok {
			claimed, releases = append(claimed, image), append(releases, done)
		} else {
			result.InUse = append(result.InUse, image.name)
		}
	}

	return claimed, func() {
		for _, done := range releases {
			done()
		}
	}
}

// sweep deletes one image.
func (k *Keeper) sweep(ctx context.Context, at Place, image candidate, which Selection, result *Result) error {
	for range attempts {
		err := k.delete(ctx, at, image.name, preconditionsOf(image.uid, image.version))
		if err == nil {
			result.Deleted = append(result.Deleted, image.name)
			klog.FromContext(ctx).Info("Deleted a golden image that no MachineClass refers to", "dataVolume", at.path(image.name))

			return nil
		}

		if !apierrors.IsConflict(err) {
			return err
		}

		changed, err := look(ctx, at, image.name)
		if err != nil {
			return err
		}

		if changed == nil || changed.GetUID() != image.uid || !is(changed, which) {
			return nil
		}

		image = candidateOf(changed)
	}

	// It changes all the time.
	result.InUse = append(result.InUse, image.name)

	return nil
}

// look returns an object's metadata, or nil if it is gone.
func look(ctx context.Context, at Place, name string) (metav1.Object, error) {
	var found *metav1.PartialObjectMetadata

	err := at.Request(ctx, "get golden image "+at.path(name), func(ctx context.Context) error {
		var err error
		found, err = at.metadata(dataVolumes).Get(ctx, name, metav1.GetOptions{})

		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // The absence of the object is one of its states here, and the caller handles it.
	}

	return found, err
}
