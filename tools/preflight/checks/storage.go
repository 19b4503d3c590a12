package checks

import (
	"cmp"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// The annotations of the StorageClass for claims that name none. CDI prefers the former
// (pkg/controller/common/util.go).
const (
	annotationDefaultVirtClass = "storageclass.kubevirt.io/is-default-virt-class"
	annotationDefaultClass     = "storageclass.kubernetes.io/is-default-class"
)

// storageClassOf returns the name of the StorageClass of a disk: its own or the default; empty if it is unknown.
func storageClassOf(d *disk, classes []storagev1.StorageClass) string {
	return cmp.Or(ptr.Deref(d.requested.StorageClassName, ""), defaultClass(classes))
}

// defaultClass returns the StorageClass of claims that name none; empty if there is none. Of several, the youngest
// applies; the admin has to clean up.
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
