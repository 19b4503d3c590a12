// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// sweepTimeout bounds how long a call waits for unneeded images to be deleted.
	sweepTimeout = 20 * time.Second
	// attempts bounds how often an image is read again if it changes before it is deleted, as
	// during an import. The next sweep continues.
	attempts = 5
	// maxImageMemory bounds the memory for a list of images, in bytes. It suffices for a thousand images.
	maxImageMemory = 256 << 10
)

// RegisterClass registers the MachineClass of a request: its image is needed as long as requests
// name it.
func (m *Manager) RegisterClass(class Class) {
	m.registry.register(class)
}

// MachineDeleted deletes the images that are no longer needed, if the MachineClass of the deleted
// machine is being deleted too. It returns within sweepTimeout, and only logs failures: an unneeded
// image must not fail the deletion of a machine.
func (m *Manager) MachineDeleted(ctx context.Context, c *providerapi.Clients, class Class) {
	if class.Deleted {
		m.sweep(ctx, c, class, m.registry.references(class.Cluster))
	}
}

// MachinesListed deletes the images that are no longer needed, at most once per orphan period
// unless the MachineClass is being deleted. It returns within sweepTimeout, and only logs failures.
func (m *Manager) MachinesListed(ctx context.Context, c *providerapi.Clients, class Class) {
	m.registry.registerListing(class.Cluster)

	refs := m.registry.references(class.Cluster)
	if class.Deleted || refs.complete && m.registry.sweepDue(c.Server+"/"+c.Namespace, class.Cluster) {
		m.sweep(ctx, c, class, refs)
	}
}

// sweep deletes the images of a class's cluster that no MachineClass, no VirtualMachine and no clone needs.
func (m *Manager) sweep(ctx context.Context, c *providerapi.Clients, class Class, refs references) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()

	if err := m.deleteUnneeded(ctx, c, selection{cluster: class.Cluster, shootUID: class.ShootUID, unneeded: refs.unneeded}); err != nil {
		klog.FromContext(ctx).Info("Cannot delete unneeded golden images; a later call retries", "cluster", class.Cluster, "err", err)
	}
}

// selection are the images of a cluster that may be deleted.
type selection struct {
	cluster, shootUID string
	unneeded          func(image string, created time.Time) bool
}

// deleteUnneeded deletes images that are not in use. A failure for one image does not prevent the
// deletion of the others.
func (m *Manager) deleteUnneeded(ctx context.Context, c *providerapi.Clients, which selection) error {
	found, err := list(ctx, c, which)
	if err != nil || len(found) == 0 {
		return err
	}

	// Until the deletion, no call of this process creates a machine from one of them.
	locked, release := m.lock(c, found)
	defer release()

	used, err := inUse(ctx, c, locked)
	if err != nil {
		return err
	}

	var errs []error

	for _, image := range locked {
		if !used[image.name] {
			errs = append(errs, m.deleteImage(ctx, c, image, which))
		}
	}

	return errors.Join(errs...)
}

// candidate is an image that may be deleted.
type candidate struct {
	name, version string
	uid           types.UID
}

func candidateOf(image metav1.Object) candidate {
	return candidate{name: image.GetName(), version: image.GetResourceVersion(), uid: image.GetUID()}
}

// list lists the images that may be deleted, without those that are being deleted already.
func list(ctx context.Context, c *providerapi.Clients, which selection) ([]candidate, error) {
	return List(ctx, c, []string{which.cluster}, func(image metav1.Object) (candidate, bool) {
		return candidateOf(image), which.matches(image) && image.GetDeletionTimestamp() == nil
	})
}

// List lists the images of clusters in the clients' namespace, and returns the values that keep
// selects from their metadata.
func List[T any](ctx context.Context, c *providerapi.Clients, clusters []string, keep func(metav1.Object) (kept T, ok bool)) ([]T, error) {
	images := providerapi.List{
		Description: "golden images in " + c.Namespace,
		Labels:      fmt.Sprintf("%s in (%s),%s,!%s", v1alpha1.TagCluster, strings.Join(clusters, ","), v1alpha1.LabelGoldenImage, v1alpha1.TagRole),
		MaxKept:     maxImageMemory,
	}

	return providerapi.Collect(ctx, c, metadataOf(c, dataVolumeResource), images, func(object metav1.Object) (kept T, ok bool) {
		if !slices.ContainsFunc(clusters, func(cluster string) bool { return goldenimage.Is(object, cluster) }) {
			return kept, false
		}

		return keep(object)
	})
}

// matches reports whether an object is an image that may be deleted. A sweep reads metadata only,
// so it does not compare specs. An object with an image's metadata was created on purpose, and its
// deletion does not affect machines.
func (s selection) matches(object metav1.Object) bool {
	return goldenimage.Is(object, s.cluster) && !v1alpha1.IsOfOtherShoot(object.GetLabels(), s.shootUID) &&
		s.unneeded(object.GetName(), object.GetCreationTimestamp().Time)
}

// lock locks and returns the images that no call in flight is using to create a machine.
func (m *Manager) lock(c *providerapi.Clients, found []candidate) (locked []candidate, release func()) {
	var releases []func()

	for _, image := range found {
		if unlock, ok := m.states.tryLock(refOf(c, image.name)); ok {
			locked, releases = append(locked, image), append(releases, unlock)
		}
	}

	return locked, func() {
		for _, unlock := range releases {
			unlock()
		}
	}
}

// deleteImage deletes one image. If it keeps changing, a later sweep deletes it.
func (m *Manager) deleteImage(ctx context.Context, c *providerapi.Clients, image candidate, which selection) error {
	for range attempts {
		err := m.delete(ctx, c, image.name, preconditionsOf(image.uid, image.version))
		if err == nil {
			klog.FromContext(ctx).Info("Deleted an unreferenced golden image", "dataVolume", c.Path(image.name))

			return nil
		}

		if !apierrors.IsConflict(err) {
			return err
		}

		changed, err := dataVolumes(c).Get(ctx, image.name)
		if err != nil {
			return err
		}

		if changed == nil || changed.GetUID() != image.uid || !which.matches(changed) {
			return nil
		}

		image = candidateOf(changed)
	}

	return nil
}
