package goldenimage

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Hold makes sure that an image is there, without waiting for its import, and keeps Sweep from deleting it until release is called.
// An image that is known to be there costs no request.
func (k *Keeper) Hold(ctx context.Context, at Place, want *cdiv1beta1.DataVolume) (release func(), err error) {
	release = k.images.share(at.ref(want.Name))

	if k.images.state(at.ref(want.Name)) != "" {
		return release, nil
	}

	if err := k.once(ctx, at, want); err != nil {
		release()

		return nil, err
	}

	return release, nil
}

// Ensure makes sure that an image is there. Unlike Hold it also looks after one that has failed. One that is on its way out is an
// error that wraps spi.ErrConflict: no machine waits for it, so that nobody else would make it again.
func (k *Keeper) Ensure(ctx context.Context, at Place, want *cdiv1beta1.DataVolume) error {
	release := k.images.share(at.ref(want.Name))
	defer release()

	if now := k.images.state(at.ref(want.Name)); now == importing || now == ready {
		return nil
	}

	if err := k.once(ctx, at, want); err != nil {
		return err
	}

	if k.images.state(at.ref(want.Name)) == "" {
		return fmt.Errorf("%w: golden image %s is being replaced", spi.ErrConflict, at.path(want.Name))
	}

	return nil
}

// once lets many who need the same image at the same time make it once. Who has to give up takes nobody along.
func (k *Keeper) once(ctx context.Context, at Place, want *cdiv1beta1.DataVolume) error {
	key := at.Clients.Server + " " + at.path(want.Name)

	for {
		_, err, shared := k.pending.Do(key, func() (any, error) { return nil, k.ensure(ctx, at, want) })
		if !shared || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

func (k *Keeper) ensure(ctx context.Context, at Place, want *cdiv1beta1.DataVolume) error {
	var made *cdiv1beta1.DataVolume

	err := at.Request(ctx, "create golden image "+at.path(want.Name), func(ctx context.Context) error {
		var err error
		made, err = at.dataVolumes().Create(ctx, want, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})

		return err
	})

	switch {
	case err == nil:
		k.images.set(at.ref(want.Name), importing, made.UID)
		klog.FromContext(ctx).Info("Importing a golden image", "dataVolume", klog.KObj(want))

		return nil
	case apierrors.IsAlreadyExists(err):
		return k.adopt(ctx, at, want)
	case errors.Is(err, spi.ErrForbidden):
		return spi.WithRemedy(err, "run kubectl apply -k kubernetes/provider-namespace to grant create, get and delete on datavolumes, or set disablePreAllocatedDataVolumes")
	default:
		return err
	}
}

// adopt takes the image that is there for the wanted one, if it is. One that is on its way out is made again by a later call: the
// machines that wait for it are looked after until they run.
func (k *Keeper) adopt(ctx context.Context, at Place, want *cdiv1beta1.DataVolume) error {
	var have *cdiv1beta1.DataVolume

	err := at.Request(ctx, "get golden image "+at.path(want.Name), func(ctx context.Context) error {
		var err error
		have, err = at.dataVolumes().Get(ctx, want.Name, metav1.GetOptions{})

		return err
	})

	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return err
	}

	if err := k.require(at, have, want); err != nil || have.DeletionTimestamp != nil {
		return err
	}

	return k.observe(ctx, at, have)
}

// require forgets what is known of an image if another DataVolume is in its place.
func (k *Keeper) require(at Place, have, want *cdiv1beta1.DataVolume) error {
	err := requireOwn(at, have, want)
	if err != nil {
		k.images.set(at.ref(want.Name), "", "")
	}

	return err
}

// Observe takes note of what was seen of an image. One that has failed for good is deleted, so that the next call makes it anew.
// A DataVolume that only has its name is left alone, and the error wraps spi.ErrForeign: what is cloned from it is not the image.
func (k *Keeper) Observe(ctx context.Context, at Place, have, want *cdiv1beta1.DataVolume) error {
	if err := k.require(at, have, want); err != nil {
		return err
	}

	return k.observe(ctx, at, have)
}

// observe expects an image for which requireOwn found no difference.
func (k *Keeper) observe(ctx context.Context, at Place, have *cdiv1beta1.DataVolume) error {
	now := stateOf(have)
	if now == importing && k.images.state(at.ref(have.Name)) == ready && k.images.is(at.ref(have.Name), have.UID) {
		return nil // It was seen before what is known by now.
	}

	before := k.images.set(at.ref(have.Name), now, have.UID)

	if before == importing && now == ready {
		k.metrics.imported(have, k.clock.Now())
	}

	if now != failed || k.clock.Since(have.CreationTimestamp.Time) < replaceAfter {
		return nil
	}

	klog.FromContext(ctx).Info("Replacing a golden image that has failed", "dataVolume", klog.KObj(have))

	return k.remove(ctx, at, have.Name, preconditionsOf(have.UID, have.ResourceVersion))
}

func stateOf(have *cdiv1beta1.DataVolume) state {
	switch {
	case have.DeletionTimestamp != nil:
		return ""
	case have.Status.Phase == cdiv1beta1.Failed:
		return failed
	case have.Status.Phase == cdiv1beta1.Succeeded:
		return ready
	default:
		return importing
	}
}

// remove deletes an image, if it is still the one that was looked at. One that is gone, or has changed, is no failure: the next
// call looks at it again.
func (k *Keeper) remove(ctx context.Context, at Place, name string, only metav1.Preconditions) error {
	err := k.delete(ctx, at, name, only)
	if apierrors.IsConflict(err) {
		k.images.set(at.ref(name), "", "")

		return nil
	}

	return err
}

func (k *Keeper) delete(ctx context.Context, at Place, name string, only metav1.Preconditions) error {
	err := at.Request(ctx, "delete golden image "+at.path(name), func(ctx context.Context) error {
		return at.dataVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &only})
	})

	switch {
	case err == nil, apierrors.IsNotFound(err):
		k.images.set(at.ref(name), "", "")

		return nil
	case errors.Is(err, spi.ErrForbidden):
		return spi.WithRemedy(err, "run kubectl apply -k kubernetes/provider-namespace to grant delete on datavolumes")
	default:
		return err
	}
}

// Missed takes note that an image, which was thought to be there, is not.
func (k *Keeper) Missed(at Place, name string) {
	k.images.set(at.ref(name), "", "")
}

// Cloned takes note that a machine was made that is cloned from an image.
func (k *Keeper) Cloned() {
	k.metrics.clones.Inc()
}

// Arrived looks at an image from which a machine was cloned to the end, unless it is known to be complete.
func (k *Keeper) Arrived(ctx context.Context, at Place, name string) {
	if k.images.state(at.ref(name)) != importing {
		return
	}

	// Not repeated: without it, a metric is less exact, and that is all.
	have, err := providerapi.Once(ctx, arrivalTimeout, func(ctx context.Context) (*cdiv1beta1.DataVolume, error) {
		return at.dataVolumes().Get(ctx, name, metav1.GetOptions{})
	})

	switch {
	case err != nil:
	case !k.images.is(at.ref(name), have.UID):
		k.Missed(at, name) // Another DataVolume is in its place. The next machine compares it.
	case stateOf(have) == ready:
		_ = k.observe(ctx, at, have) // A complete image needs nothing that could fail.
	}
}

// preconditionsOf keep a deletion from hitting another object of the same name, or this one when it has changed.
func preconditionsOf(uid types.UID, version string) metav1.Preconditions {
	return metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}
