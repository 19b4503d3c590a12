package goldenimage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
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

	used, err := uses(ctx, at)
	if err != nil {
		return result, err
	}

	var errs []error

	for _, image := range claimed {
		if used[image.GetName()] {
			result.InUse = append(result.InUse, image.GetName())
		} else if err := k.sweep(ctx, at, image, which, result); err != nil {
			errs = append(errs, err)
		}
	}

	slices.Sort(result.InUse)
	slices.Sort(result.Deleted)

	return result, errors.Join(errs...)
}

// candidates lists the images that may go. Those that are going already do not count.
func candidates(ctx context.Context, at Place, which Selection) ([]metav1.Object, error) {
	selector := labels.Set{v1alpha1.TagCluster: which.Cluster}.String() + "," + v1alpha1.LabelGoldenImage + ",!" + v1alpha1.TagRole

	var found []metav1.Object

	err := at.Request(ctx, "list golden images in "+at.Clients.Namespace, func(ctx context.Context) error {
		found = nil

		return at.eachMetadata(ctx, dataVolumes, selector, func(image metav1.Object) {
			if is(image, which) && image.GetDeletionTimestamp() == nil {
				found = append(found, image)
			}
		})
	})

	return found, err
}

// is says whether an object is an image that may go. Somebody else's has no key, and a clone is not named by its own label.
func is(image metav1.Object, which Selection) bool {
	_, role := image.GetLabels()[v1alpha1.TagRole]

	return !role && image.GetAnnotations()[v1alpha1.AnnotationGoldenImageKey] != "" &&
		image.GetLabels()[v1alpha1.TagCluster] == which.Cluster &&
		image.GetLabels()[v1alpha1.LabelGoldenImage] == image.GetName() && which.MayGo(image.GetName())
}

// claim holds the images alone that nobody makes a machine from at this moment. The others are in use.
func (k *Keeper) claim(at Place, found []metav1.Object, result *Result) (claimed []metav1.Object, release func()) {
	var releases []func()

	for _, image := range found {
		if done, ok := k.images.claim(at.ref(image.GetName())); ok {
			claimed, releases = append(claimed, image), append(releases, done)
		} else {
			result.InUse = append(result.InUse, image.GetName())
		}
	}

	return claimed, func() {
		for _, done := range releases {
			done()
		}
	}
}

// sweep deletes one image.
func (k *Keeper) sweep(ctx context.Context, at Place, image metav1.Object, which Selection, result *Result) error {
	uid := image.GetUID()

	for range attempts {
		err := k.delete(ctx, at, image.GetName(), preconditionsOf(uid, image.GetResourceVersion()))
		if err == nil {
			result.Deleted = append(result.Deleted, image.GetName())
			klog.FromContext(ctx).Info("Deleted a golden image that no MachineClass refers to", "dataVolume", at.path(image.GetName()))

			return nil
		}

		if !apierrors.IsConflict(err) {
			return err
		}

		changed, err := look(ctx, at, image.GetName())
		if err != nil {
			return err
		}

		if changed == nil || changed.GetUID() != uid || !is(changed, which) {
			return nil
		}

		image = changed
	}

	// It changes all the time.
	result.InUse = append(result.InUse, image.GetName())

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

// eachMetadata visits the selected objects, page by page.
func (p Place) eachMetadata(ctx context.Context, resource schema.GroupVersionResource, selector string, visit func(metav1.Object)) error {
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return p.metadata(resource).List(ctx, opts)
	})

	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
		item, err := meta.Accessor(object)
		if err != nil {
			return fmt.Errorf("read %s: %w", resource.Resource, err)
		}

		visit(item)

		return nil
	})
}
