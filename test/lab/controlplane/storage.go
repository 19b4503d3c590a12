// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/storage"
)

// The storage classes of the provider cluster.
const (
	StorageImmediate = "immediate" // binds at once, clones with CSI
	StorageWait      = "wait"      // the default: binds when a pod is scheduled, clones with CSI
	StorageCopy      = "copy"      // binds at once, clones by copying through pods
	StorageShared    = "shared"    // the only one with real nodes: folders that all of them mount
	StorageZonal     = "zonal"     // binds when a pod is scheduled, clones with CSI, but not into another zone
)

type storageClass struct {
	name      string
	binding   string
	clone     string
	byDefault bool
	zonal     bool
}

// storageClasses returns the classes of the simulated storage, or that of real nodes.
func (o Options) storageClasses() []storageClass {
	if o.Nodes != nil {
		return []storageClass{{name: StorageShared, binding: "Immediate", clone: "copy", byDefault: true}}
	}
	return []storageClass{
		{name: StorageImmediate, binding: "Immediate", clone: "csi-clone"},
		{name: StorageWait, binding: "WaitForFirstConsumer", clone: "csi-clone", byDefault: true},
		{name: StorageCopy, binding: "Immediate", clone: "copy"},
		{name: StorageZonal, binding: "WaitForFirstConsumer", clone: "csi-clone", zonal: true},
	}
}

func (s storageClass) object(provisioner string) object {
	o := named("storage.k8s.io/v1", "StorageClass", s.name)
	if s.byDefault {
		o["metadata"] = object{"name": s.name, "annotations": object{"storageclass.kubernetes.io/is-default-class": "true"}}
	}
	o["provisioner"] = provisioner
	o["allowVolumeExpansion"] = true
	if s.zonal {
		o["parameters"] = object{storage.ZonalParameter: "true"}
	}
	o["volumeBindingMode"] = s.binding
	o["reclaimPolicy"] = "Delete"
	return o
}

// claimPropertySets returns the access and volume modes of the storage, the preferred ones first. Folders are no block volumes.
func (o Options) claimPropertySets() []any {
	if o.Nodes != nil {
		return []any{object{"accessModes": []any{"ReadWriteMany"}, "volumeMode": "Filesystem"}}
	}
	return []any{
		object{"accessModes": []any{"ReadWriteMany"}, "volumeMode": "Block"},
		object{"accessModes": []any{"ReadWriteOnce"}, "volumeMode": "Filesystem"},
	}
}

// provisioner returns the name of the storage's driver.
func (o Options) provisioner() string {
	if o.Nodes != nil {
		return SharedProvisioner
	}
	return storage.Provisioner
}

// configureStorage tells CDI the capabilities of the lab's storage, as an administrator does for a
// driver that CDI does not know. cdi-controller creates the StorageProfiles.
func (p *provider) configureStorage(ctx context.Context) error {
	classes := p.options.storageClasses()
	return forEach(ctx, len(classes), classes, func(ctx context.Context, s *storageClass) error {
		profile := unstructured.Unstructured{Object: named("cdi.kubevirt.io/v1beta1", "StorageProfile", s.name)}
		spec, err := json.Marshal(object{"spec": object{
			"cloneStrategy":     s.clone,
			"claimPropertySets": p.options.claimPropertySets(),
		}})
		if err != nil {
			return fmt.Errorf("encode storage profile: %w", err)
		}
		return p.patch(ctx, &profile, string(spec))
	})
}
