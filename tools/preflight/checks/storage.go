// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// The annotations of the StorageClass for claims that name none. CDI prefers the former
// (pkg/controller/common/util.go).
const (
	annotationDefaultVirtClass = "storageclass.kubevirt.io/is-default-virt-class"
	annotationDefaultClass     = "storageclass.kubernetes.io/is-default-class"
)

// storage is a disk with its StorageClass and StorageProfile.
type storage struct {
	disk

	// name is the name of the StorageClass: its own or the default; empty if it is unknown.
	name string
	// class and profile are nil if they do not exist or cannot be read.
	class   *storagev1.StorageClass
	profile *cdiv1beta1.StorageProfile
}

// storages are the disks of one machine, and all StorageClasses. Either list may be unreadable.
type storages struct {
	list                   []storage
	classes                []storagev1.StorageClass
	classesErr, profileErr error
}

// storagesOf reads the storage of a machine, if it has disks: the driver may read CDI's objects, as every user may,
// but not those of Kubernetes.
func storagesOf(ctx context.Context, r *reader, c *class) *storages {
	all := &storages{}

	disks := c.disks()
	if len(disks) == 0 {
		return all
	}

	var profiles []cdiv1beta1.StorageProfile

	all.classes, all.classesErr = r.storageClasses(ctx)
	profiles, all.profileErr = r.storageProfiles(ctx)

	for _, d := range disks {
		name := cmp.Or(ptr.Deref(d.requested.StorageClassName, ""), defaultClass(all.classes))
		all.list = append(all.list, storage{disk: d, name: name, class: named(all.classes, name), profile: named(profiles, name)})
	}

	return all
}

// defaultClass returns the StorageClass of claims that set none, or "". If several are marked as default, the newest
// wins.
func defaultClass(classes []storagev1.StorageClass) string {
	for _, annotation := range []string{annotationDefaultVirtClass, annotationDefaultClass} {
		marked := slices.DeleteFunc(slices.Clone(classes), func(c storagev1.StorageClass) bool { return c.Annotations[annotation] != "true" })
		if len(marked) > 0 {
			return slices.MaxFunc(marked, func(a, b storagev1.StorageClass) int {
				return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
			}).Name
		}
	}

	return ""
}

// named returns the object with a name; nil if there is none.
func named[T any, O interface {
	*T
	GetName() string
}](list []T, name string) O {
	for i := range list {
		if O(&list[i]).GetName() == name {
			return &list[i]
		}
	}

	return nil
}
