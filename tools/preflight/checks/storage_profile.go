// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// checkStorageProfiles checks that CDI knows access modes for a machine's disks with which the machine can be
// live-migrated.
func checkStorageProfiles(ctx context.Context, r *reader, c *class) []Result {
	all := storagesOf(ctx, r, c)
	if unknownType(all.profileErr) {
		return nil // The check of CDI reports that.
	}

	var results []Result

	for i := range all.list {
		d := &all.list[i]
		if d.name == "" {
			continue
		}

		s := r.about("StorageProfile " + d.name + ", for " + strings.TrimPrefix(d.path, "providerSpec."))

		switch {
		case all.profileErr != nil:
			results = append(results, s.notChecked(all.profileErr, kubectl("describe storageprofile", d.name))...)
		case d.profile != nil:
			results = append(results, checkAccessModes(s, c, d)...)
		case all.classesErr != nil || d.class != nil: // The check of StorageClasses reports a missing one.
			results = append(results, s.fail("does not exist, although CDI creates one for each StorageClass",
				"change "+d.inField("storageClassName")+" to an existing one: kubectl get storageprofiles")...)
		}
	}

	return results
}

func checkAccessModes(s subject, c *class, d *storage) []Result {
	modes, volumeMode := v1alpha1.EffectiveModes(&d.requested, d.profile)
	field := d.inField("accessModes")
	ofVolumeMode := ""

	if mode := d.requested.VolumeMode; mode != nil {
		ofVolumeMode = " for volumeMode " + string(*mode)
	}

	switch {
	case len(modes) == 0 && d.spec.PVC == nil:
		return s.fail("has no access modes"+ofVolumeMode+", and the class sets none",
			kubectl("patch storageprofile", d.name)+" --type=merge --patch="+quoted(fmt.Sprintf(
				`{"spec":{"claimPropertySets":[{"accessModes":["ReadWriteOnce"],"volumeMode":%q}]}}`,
				ptr.Deref(volumeMode, corev1.PersistentVolumeFilesystem)))+", or set "+field)
	case slices.Contains(modes, corev1.ReadWriteMany), len(d.requested.AccessModes) > 0, !isMigrated(c.instance()):
		strategy := cmp.Or(ptr.Deref(d.profile.Status.CloneStrategy, ""), "chosen by CDI")

		return s.ok(fmt.Sprintf("access modes %s, clone strategy %s", joined(modes), strategy))
	default:
		return s.warn("access modes "+joined(modes)+": machines cannot be live-migrated when a node is drained",
			fmt.Sprintf("set %s to a class with ReadWriteMany, or %s to [%s] if that is intended", d.inField("storageClassName"), field, quoted(joined(modes))))
	}
}

// isMigrated reports whether the machine is live-migrated when its node is drained.
func isMigrated(instance *kubevirtv1.VirtualMachineInstanceSpec) bool {
	return ptr.Deref(instance.EvictionStrategy, kubevirtv1.EvictionStrategyNone) != kubevirtv1.EvictionStrategyNone
}

func joined[T ~string](list []T) string {
	texts := make([]string, 0, len(list))
	for _, item := range list {
		texts = append(texts, string(item))
	}

	return strings.Join(texts, ", ")
}
