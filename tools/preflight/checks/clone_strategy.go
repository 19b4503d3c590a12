// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// checkCloneStrategies checks for causes that make CDI copy a volume through pods instead of cloning it.
func checkCloneStrategies(ctx context.Context, r *reader, c *class) []Result {
	var ofStorage, ofSources []Result

	for _, d := range storagesOf(ctx, r, c).list { // The checks of storage report errors.
		if d.name == "" || !d.isCloned() {
			continue
		}

		if d.profile != nil {
			ofStorage = append(ofStorage, checkStrategy(r, &d)...)
		}

		if d.image == nil {
			ofSources = append(ofSources, checkSourceClass(ctx, r, c, &d)...)
		}
	}

	return append(ofStorage, ofSources...)
}

func checkStrategy(r *reader, d *storage) []Result {
	s := r.about("StorageProfile " + d.name + ", for " + strings.TrimPrefix(d.path, "providerSpec."))

	switch {
	case ptr.Deref(d.profile.Status.CloneStrategy, "") == cdiv1beta1.CloneStrategyHostAssisted:
		return s.warn("clones are copied through pods, which takes minutes for each machine",
			"if the storage can clone: "+kubectl("patch storageprofile", d.name)+` --type=merge --patch='{"spec":{"cloneStrategy":"csi-clone"}}'`)
	case grows(&d.disk) && d.class != nil && !ptr.Deref(d.class.AllowVolumeExpansion, false):
		return s.warn("the StorageClass cannot expand volumes (allowVolumeExpansion): clones of a "+
			"smaller golden image are copied through pods, which takes minutes for each machine",
			kubectl("patch storageclass", d.name)+` --patch='{"allowVolumeExpansion":true}' if the storage supports it, or use the same size for both`)
	default:
		return nil
	}
}

// grows reports whether a disk is larger than the golden image that it is cloned from. The sizes
// of other sources are unknown.
func grows(d *disk) bool {
	if d.image == nil {
		return false
	}

	image := requestedStorage(&d.image.Spec)

	return d.requested.Resources.Requests.Storage().Cmp(*image.Resources.Requests.Storage()) > 0
}

// checkSourceClass compares the StorageClass of a disk that is cloned from a claim, maybe through a DataSource, with
// the class of the claim. The check of sources reports errors.
func checkSourceClass(ctx context.Context, r *reader, c *class, d *storage) []Result {
	from := sourcesOf(d.path, d.spec, c.namespace)[0]

	found, err := r.object(ctx, &from)
	if source, ok := found.(*cdiv1beta1.DataSource); ok && err == nil {
		next := resolvedSource(source, from.namespace)
		if len(next) == 0 {
			return nil
		}

		from = next[0]
		found, err = r.object(ctx, &from)
	}

	claim, ok := found.(*corev1.PersistentVolumeClaim)
	if err != nil || !ok || ptr.Deref(claim.Spec.StorageClassName, d.name) == d.name {
		return nil
	}

	class := *claim.Spec.StorageClassName

	return r.about(from.subject()).warn(
		fmt.Sprintf("has StorageClass %s, but %s is cloned into %s: CDI creates a temporary claim in namespace %s or copies the volume through pods; "+
			"if that claim does not bind, machines never start, and no error is reported", class, strings.TrimPrefix(d.path, "providerSpec."), d.name, from.namespace),
		fmt.Sprintf("set %s to %s, or provide the image in %s; check the claims of a running clone with %s",
			d.inField("storageClassName"), quoted(class), quoted(d.name), kubectlIn(from.namespace, "get persistentvolumeclaims")))
}
