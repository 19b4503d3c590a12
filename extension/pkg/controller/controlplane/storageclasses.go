// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// storageClasses returns the values of the classes of the shoot.
func storageClasses(profile *api.CloudProfileConfig) []values {
	classes := []values{}

	for _, c := range profile.VolumeClasses {
		if c.ExposeAs == "" {
			continue
		}

		classes = append(classes, values{
			"name":                   c.ExposeAs,
			"infraStorageClassName":  c.Name,
			"infraSnapshotClassName": c.SnapshotClass,
			"default":                c.Default,
			"reclaimPolicy":          cmp.Or(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			"volumeBindingMode":      cmp.Or(c.VolumeBindingMode, storagev1.VolumeBindingWaitForFirstConsumer),
			"zones":                  c.Zones,
		})
	}

	return classes
}

// enforcement is the value of INFRA_STORAGE_CLASS_ENFORCEMENT of KubeVirt's CSI driver
// (pkg/util/util.go). Without it, users of a shoot could use all storage classes of the provider
// cluster by StorageClasses of their own.
type enforcement struct {
	AllowAll               bool              `json:"allowAll"`
	AllowDefault           bool              `json:"allowDefault"`
	AllowList              []string          `json:"allowList"`
	StorageSnapshotMapping []snapshotMapping `json:"storageSnapshotMapping,omitempty"`
}

// snapshotMapping maps storage classes to the snapshot classes that are allowed for their volumes.
type snapshotMapping struct {
	StorageClasses        []string `json:"storageClasses"`
	VolumeSnapshotClasses []string `json:"volumeSnapshotClasses"`
}

// storageClassEnforcement returns, in YAML, the enforcement that allows the exposed classes of the
// CloudProfile. The driver uses only the first mapping of a storage class: each has at most one.
func storageClassEnforcement(profile *api.CloudProfileConfig) (string, error) {
	snapshots := map[string]sets.Set[string]{}

	for _, c := range profile.VolumeClasses {
		if c.ExposeAs == "" {
			continue
		}

		if snapshots[c.Name] == nil {
			snapshots[c.Name] = sets.New[string]()
		}

		if c.SnapshotClass != "" {
			snapshots[c.Name].Insert(c.SnapshotClass)
		}
	}

	e := enforcement{AllowList: []string{}}

	for _, class := range slices.Sorted(maps.Keys(snapshots)) {
		e.AllowList = append(e.AllowList, class)

		if of := sets.List(snapshots[class]); len(of) > 0 {
			e.StorageSnapshotMapping = append(e.StorageSnapshotMapping, snapshotMapping{StorageClasses: []string{class}, VolumeSnapshotClasses: of})
		}
	}

	raw, err := yaml.Marshal(e)

	return string(raw), err
}
