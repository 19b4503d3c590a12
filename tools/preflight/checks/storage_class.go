// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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
	var results []Result

	all := storagesOf(ctx, r, c)
	seen := map[string]bool{}

	for i := range all.list {
		name := ptr.Deref(all.list[i].requested.StorageClassName, "")
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

		switch d := &all.list[i]; {
		case all.classesErr != nil:
			results = append(results, s.notChecked(all.classesErr, command)...)
		case d.class == nil:
			results = append(results, s.fail("does not exist", missingClassRemedy(d, all.classes))...)
		case !provisionsIn(d.class, c.Machine.Spec.Zone):
			results = append(results, s.fail(fmt.Sprintf("%s does not provision volumes in zone %s (allowedTopologies)", d.name, c.Machine.Spec.Zone),
				"set "+d.inField("storageClassName")+" to a class that does: kubectl get storageclasses --output=yaml")...)
		default:
			mode := ptr.Deref(d.class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
			results = append(results, s.ok(fmt.Sprintf("%s, provisioner %s, binding mode %s", d.name, d.class.Provisioner, mode))...)
		}
	}

	return results
}

func missingClassRemedy(d *storage, classes []storagev1.StorageClass) string {
	var names []string
	for i := range classes {
		names = append(names, classes[i].Name)
	}

	slices.Sort(names)

	remedy := "set " + d.inField("storageClassName") + " to one of " + quotedList(names)
	if len(names) == 0 {
		remedy = "set " + d.inField("storageClassName") + " to an existing StorageClass, and create one: the provider cluster has none"
	}

	if d.name == "" {
		remedy += ", or mark a default one: kubectl annotate storageclass NAME " + annotationDefaultClass + "=true"
	}

	return remedy
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
