// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Hold creates an image unless it exists, and keeps a sweep from deleting it until release is called.
// It does not wait for the import. An image that is known to exist costs no request.
func (m *Manager) Hold(ctx context.Context, c *providerapi.Clients, want *cdiv1beta1.DataVolume) (release func(), err error) {
	release = m.states.share(refOf(c, want.Name))

	if m.states.state(refOf(c, want.Name)) != "" {
		return release, nil
	}

	if err := m.once(ctx, c, want); err != nil {
		release()

		return nil, err
	}

	return release, nil
}

// once merges concurrent calls for the same image. A cancelled caller does not cancel the others.
func (m *Manager) once(ctx context.Context, c *providerapi.Clients, want *cdiv1beta1.DataVolume) error {
	key := c.Server + " " + c.Path(want.Name)

	for {
		_, err, shared := m.pending.Do(key, func() (any, error) { return nil, m.ensure(ctx, c, want) })
		if !shared || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

func (m *Manager) ensure(ctx context.Context, c *providerapi.Clients, want *cdiv1beta1.DataVolume) error {
	made, err := dataVolumes(c).Create(ctx, want)

	switch {
	case err == nil:
		m.states.set(refOf(c, want.Name), importing, made.UID)
		klog.FromContext(ctx).Info("Importing a golden image", "dataVolume", klog.KObj(want))

		return nil
	case apierrors.IsAlreadyExists(err):
		return m.adopt(ctx, c, want)
	case errors.Is(err, spi.ErrForbidden):
		return spi.WithRemedy(err, "run kubectl apply -k kubernetes/provider-namespace to grant create, get and delete on datavolumes, or set disablePreAllocatedDataVolumes")
	default:
		return err
	}
}

// adopt compares an existing DataVolume with the wanted image. An image that is being deleted is
// created again by a later call: InitializeMachine is repeated until the machine runs.
func (m *Manager) adopt(ctx context.Context, c *providerapi.Clients, want *cdiv1beta1.DataVolume) error {
	have, err := dataVolumes(c).Get(ctx, want.Name)
	if err != nil || have == nil {
		return err
	}

	if err := m.require(c, have, want); err != nil || have.DeletionTimestamp != nil {
		return err
	}

	return m.observe(ctx, c, have)
}

// require returns an error if a DataVolume is not the wanted image, and drops its state.
func (m *Manager) require(c *providerapi.Clients, have, want *cdiv1beta1.DataVolume) error {
	err := requireOwn(c, have, want)
	if err != nil {
		m.states.set(refOf(c, want.Name), "", "")
	}

	return err
}

// Observe updates the state of an image from a DataVolume that was read. It deletes an image whose
// import has failed, so that the next call creates it again. A DataVolume that only shares the name
// is kept, and the error wraps spi.ErrForeign: its clones would have other content.
func (m *Manager) Observe(ctx context.Context, c *providerapi.Clients, have, want *cdiv1beta1.DataVolume) error {
	if err := m.require(c, have, want); err != nil {
		return err
	}

	return m.observe(ctx, c, have)
}

// observe is Observe for a DataVolume that requireOwn has accepted.
func (m *Manager) observe(ctx context.Context, c *providerapi.Clients, have *cdiv1beta1.DataVolume) error {
	now := stateOf(have)
	if now == importing && m.states.state(refOf(c, have.Name)) == ready && m.states.is(refOf(c, have.Name), have.UID) {
		return nil // The DataVolume was read before the known state.
	}

	before := m.states.set(refOf(c, have.Name), now, have.UID)

	if before == importing && now == ready {
		m.metrics.imported(have, m.clock.Now())
	}

	if now != failed || m.clock.Since(have.CreationTimestamp.Time) < replaceAfter {
		return nil
	}

	klog.FromContext(ctx).Info("Replacing a failed golden image", "dataVolume", klog.KObj(have))

	return m.remove(ctx, c, have.Name, preconditionsOf(have.UID, have.ResourceVersion))
}

// RetryRefused deletes an image whose claim exceeds a ResourceQuota, so that the next call creates it
// again, and CDI creates the claim at once. The DataVolume must be one that Observe has accepted.
//
// CDI itself retries with exponential backoff up to 1000 s (controller-runtime's default rate limiter),
// and retries caused by other events count as well, so an image might wait 15 minutes after the quota
// was raised. Deleting it loses no data: it has no claim yet.
func (m *Manager) RetryRefused(ctx context.Context, c *providerapi.Clients, have *cdiv1beta1.DataVolume) error {
	if !claimRefused(have) || m.clock.Since(have.CreationTimestamp.Time) < retryAfter {
		return nil
	}

	klog.FromContext(ctx).V(1).Info("Creating a golden image again, whose claim exceeds a quota", "dataVolume", klog.KObj(have))

	return m.remove(ctx, c, have.Name, preconditionsOf(have.UID, have.ResourceVersion))
}

// claimRefused reports whether CDI could not create the claim of a DataVolume because of a
// ResourceQuota (handlePvcCreation in CDI's pkg/controller/datavolume/controller-base.go).
func claimRefused(have *cdiv1beta1.DataVolume) bool {
	return have.DeletionTimestamp == nil && have.Status.Phase == cdiv1beta1.Pending && have.Status.ClaimName == "" &&
		slices.ContainsFunc(have.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool {
			return c.Type == cdiv1beta1.DataVolumeBound && c.Status == corev1.ConditionFalse && c.Reason == exceededQuota
		})
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

// remove deletes an image unless it has changed since it was read. A conflict is not a failure: the
// next call reads the image again.
func (m *Manager) remove(ctx context.Context, c *providerapi.Clients, name string, only metav1.Preconditions) error {
	err := m.delete(ctx, c, name, only)
	if apierrors.IsConflict(err) {
		m.states.set(refOf(c, name), "", "")

		return nil
	}

	return err
}

func (m *Manager) delete(ctx context.Context, c *providerapi.Clients, name string, only metav1.Preconditions) error {
	err := dataVolumes(c).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &only})

	switch {
	case err == nil:
		m.states.set(refOf(c, name), "", "")

		return nil
	case errors.Is(err, spi.ErrForbidden):
		return spi.WithRemedy(err, "run kubectl apply -k kubernetes/provider-namespace to grant delete on datavolumes")
	default:
		return err
	}
}

// Forget drops the state of an image that was not found.
func (m *Manager) Forget(c *providerapi.Clients, name string) {
	m.states.set(refOf(c, name), "", "")
}

// Cloned increments the number of machines that were cloned from an image.
func (m *Manager) Cloned() {
	m.metrics.clones.Inc()
}

// CloneCompleted reads the image of a machine whose clone is complete, unless the image is known to
// be ready.
func (m *Manager) CloneCompleted(ctx context.Context, c *providerapi.Clients, name string) {
	if m.states.state(refOf(c, name)) != importing {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()

	// The request is not retried: only a metric depends on it.
	have, err := dataVolumes(c.WithoutRetry()).Get(ctx, name)

	switch {
	case err != nil || have == nil:
	case !m.states.is(refOf(c, name), have.UID):
		m.Forget(c, name) // The DataVolume was replaced. The next machine compares it.
	case stateOf(have) == ready:
		_ = m.observe(ctx, c, have) // It cannot fail for an image that is ready.
	}
}

// preconditionsOf returns the preconditions of a deletion: they protect an object that has changed or
// was replaced by another one of the same name.
func preconditionsOf(uid types.UID, version string) metav1.Preconditions {
	return metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}
