package checks

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// checkStorageClasses checks that the StorageClasses of a machine's disks exist and serve its zone.
func checkStorageClasses(ctx context.Context, r *reader, c *class) []Result {
	classes, err := r.storageClasses(ctx)
	seen := map[string]bool{}

	var results []Result

	for _, d := range c.disks() {
		name := ptr.Deref(d.requested.StorageClassName, "")
		if seen[name] {
			continue
		}

		seen[name] = true
		s := r.about("StorageClass " + name)
		command := kubectl("get storageclass", name)

		if name == "" {
			s.name = "default StorageClass"
			command = "kubectl get storageclasses"
		}

		if err != nil {
			results = append(results, s.notChecked(err, command)...)
		} else {
			results = append(results, checkStorageClass(s, c, &d, classes)...)
		}
	}

	return results
}

// checkStorageClass checks the StorageClass that a disk names, or the default.
func checkStorageClass(s subject, c *class, d *disk, classes []storagev1.StorageClass) []Result {
	field := d.inField("storageClassName")
	name := storageClassOf(d, classes)

	found := named(classes, name)
	if found == nil {
		var names []string
		for i := range classes {
			names = append(names, classes[i].Name)
		}

		slices.Sort(names)

		remedy := "set " + field + " to one of " + quotedList(names)
		if len(names) == 0 {
			remedy = "set " + field + " to an existing StorageClass, and create one: the provider cluster has none"
		}

		if name == "" {
			remedy += fmt.Sprintf(", or mark a default one: kubectl annotate storageclass NAME %s=true", annotationDefaultClass)
		}

		return s.fail("does not exist", remedy)
	}

	if zone := c.Machine.Spec.Zone; !provisionsIn(found, zone) {
		return s.fail(fmt.Sprintf("%s does not provision volumes in zone %s (allowedTopologies)", name, zone),
			"set "+field+" to a class that does: kubectl get storageclasses --output=yaml")
	}

	mode := ptr.Deref(found.VolumeBindingMode, storagev1.VolumeBindingImmediate)

	return s.ok(fmt.Sprintf("%s, provisioner %s, binding mode %s", name, found.Provisioner, mode))
}

// provisionsIn reports whether a StorageClass creates volumes in a zone, if it restricts zones by
// the standard label of Kubernetes.
func provisionsIn(class *storagev1.StorageClass, zone string) bool {
	if zone == v1alpha1.AnyTopology {
		return true
	}

	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return e.Key == corev1.LabelTopologyZone && !slices.Contains(e.Values, zone)
		})
	})
}
