package checks

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// checkCloneStrategies checks for causes that make CDI copy a volume through pods instead of cloning it.
func checkCloneStrategies(ctx context.Context, r *reader, c *class) []Result {
	var ofStorage, ofSources []Result

	classes, _ := r.storageClasses(ctx) // The checks of storage report the errors.
	profiles, _ := r.storageProfiles(ctx)

	for _, d := range c.disks() {
		name := storageClassOf(&d, classes)
		if name == "" || !d.isCloned() {
			continue
		}

		if profile := named(profiles, name); profile != nil {
			ofStorage = append(ofStorage, checkStrategy(r, &d, profile, named(classes, name))...)
		}

		if d.image == nil {
			ofSources = append(ofSources, checkSourceClass(ctx, r, c, &d, name)...)
		}
	}

	return append(ofStorage, ofSources...)
}

// checkStrategy checks the storage of a disk. The StorageClass is nil if it cannot be read.
func checkStrategy(r *reader, d *disk, profile *cdiv1beta1.StorageProfile, storage *storagev1.StorageClass) []Result {
	s := r.about("StorageProfile " + profile.Name + ", for " + strings.TrimPrefix(d.path, "providerSpec."))

	switch {
	case ptr.Deref(profile.Status.CloneStrategy, "") == cdiv1beta1.CloneStrategyHostAssisted:
		return s.warn("clones are copied through pods, which takes minutes for each machine",
			"if the storage can clone: "+kubectl("patch storageprofile", profile.Name)+` --type=merge --patch='{"spec":{"cloneStrategy":"csi-clone"}}'`)
	case grows(d) && storage != nil && !ptr.Deref(storage.AllowVolumeExpansion, false):
		return s.warn("the StorageClass cannot expand volumes (allowVolumeExpansion): clones of a "+
			"smaller golden image are copied through pods, which takes minutes for each machine",
			kubectl("patch storageclass", profile.Name)+` --patch='{"allowVolumeExpansion":true}' if the storage supports it, or use the same size for both`)
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

// checkSourceClass compares the StorageClass of a disk that is cloned from a claim with the class of the claim. The
// check of sources reports the errors.
func checkSourceClass(ctx context.Context, r *reader, c *class, d *disk, storageClass string) []Result {
	from := sourceClaim(ctx, r, c, d)
	if from == nil {
		return nil
	}

	found, err := r.object(ctx, from)

	claim, ok := found.(*corev1.PersistentVolumeClaim)
	if err != nil || !ok || ptr.Deref(claim.Spec.StorageClassName, storageClass) == storageClass {
		return nil
	}

	class := *claim.Spec.StorageClassName

	return r.about(from.subject()).warn(
		fmt.Sprintf("has StorageClass %s, but %s is cloned into %s: CDI creates a temporary claim in namespace %s or copies the volume through pods; "+
			"if that claim does not bind, machines never start, and no error is reported", class, strings.TrimPrefix(d.path, "providerSpec."), storageClass, from.namespace),
		fmt.Sprintf("set %s to %s, or provide the image in %s; check the claims of a running clone with %s",
			d.inField("storageClassName"), quoted(class), quoted(storageClass), kubectlIn(from.namespace, "get persistentvolumeclaims")))
}

// sourceClaim returns the claim that a disk is cloned from, following a DataSource; nil if it is cloned from
// another object or the DataSource cannot be read.
func sourceClaim(ctx context.Context, r *reader, c *class, d *disk) *reference {
	list := sourcesOf(d.path, d.spec, c.namespace)

	if list[0].kind == kindSource {
		found, err := r.object(ctx, &list[0])

		source, ok := found.(*cdiv1beta1.DataSource)
		if err != nil || !ok {
			return nil
		}

		list = resolvedSource(source, list[0].namespace)
	}

	if len(list) == 0 || list[0].kind != kindClaim {
		return nil
	}

	return &list[0]
}
