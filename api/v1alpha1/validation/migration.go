// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// validateLiveMigration refuses LiveMigrate for a machine that can never be live-migrated: each drain of
// its provider node would wait forever.
func validateLiveMigration(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	var reasons []string
	for _, b := range MigrationBlockers(spec) {
		reasons = append(reasons, b.Field+" "+b.Detail)
	}

	return forbid(path, len(reasons) > 0, "the machine cannot be live-migrated: "+strings.Join(reasons, "; ")+
		"; change that, or use LiveMigrateIfPossible")
}

// MigrationBlockers returns the fields of a spec that prevent live migration, each with the reason
// (KubeVirt, pkg/virt-handler/vm.go). Without blockers, the storage, a binding plugin or volumes that are attached later
// can still prevent it. The spec must be valid.
func MigrationBlockers(spec *v1alpha1.ProviderSpec) []Warning {
	t, path := instanceTemplate(spec)
	domain, path := &t.Spec.Domain, path.Child("spec", "domain")
	passthrough := ptr.Deref(ptr.Deref(domain.Features, kubevirtv1.Features{}).HypervPassthrough, kubevirtv1.HyperVPassthrough{})

	return slices.Concat(
		volumeBlockers(spec),
		networkBlocker(spec),
		reservationBlockers(ptr.Deref(spec.Devices, v1alpha1.Devices{}).Disks, root().Child("devices", "disks")),
		reservationBlockers(domain.Devices.Disks, path.Child("devices", "disks")),
		warnIf(path.Child("devices", "gpus"), len(domain.Devices.GPUs) > 0, "passes through devices of the host"),
		warnIf(path.Child("devices", "hostDevices"), len(domain.Devices.HostDevices) > 0, "passes through devices of the host"),
		warnIf(path.Child("launchSecurity"), domain.LaunchSecurity != nil, "binds the guest to its host"),
		warnIf(path.Child("features", "hypervPassthrough"), ptr.Deref(passthrough.Enabled, false), "binds the guest to its host"),
	)
}

// volumeBlockers returns the volumes that only one host can use. Without access modes in the spec,
// the storage profile of the provider's storage class decides.
func volumeBlockers(spec *v1alpha1.ProviderSpec) []Warning {
	var blockers []Warning

	for path, volume := range spec.DataVolumes(root()) {
		blockers = append(blockers, accessBlockers(volume, path)...)
	}

	t, path := instanceTemplate(spec)
	for i, volume := range t.Spec.Volumes {
		blocks := volume.HostDisk != nil && !ptr.Deref(volume.HostDisk.Shared, false)
		blockers = append(blockers, warnIf(path.Child("spec", "volumes").Index(i).Child("hostDisk"), blocks, "is a disk of one host")...)
	}

	return blockers
}

func accessBlockers(volume *v1alpha1.DataVolume, path *field.Path) []Warning {
	claim, path := claimOf(volume, path)
	blocks := len(claim.AccessModes) > 0 && !slices.Contains(claim.AccessModes, corev1.ReadWriteMany)

	return warnIf(path.Child("accessModes"), blocks, "does not contain ReadWriteMany")
}

func reservationBlockers(disks []kubevirtv1.Disk, path *field.Path) []Warning {
	var blockers []Warning

	for i := range disks {
		blocks := disks[i].LUN != nil && disks[i].LUN.Reservation
		blockers = append(blockers, warnIf(path.Index(i).Child("lun", "reservation"), blocks, "requires a SCSI reservation")...)
	}

	return blockers
}

// networkBlocker returns a bridge to the pod network, unless the spec allows its migration: on another
// host, the guest would lose its address. Whether a binding plugin can migrate is not known here.
func networkBlocker(spec *v1alpha1.ProviderSpec) []Warning {
	path := root().Child("networks")
	if i := slices.IndexFunc(spec.Networks, func(n v1alpha1.Network) bool { return n.Pod != nil }); i >= 0 {
		path = path.Index(i)
	}

	primary := spec.PrimaryNetwork()
	blocks := primary.Pod != nil && bridges(*primary) && !primary.Pod.AllowBridgeLiveMigration
	t, _ := instanceTemplate(spec)
	_, allowed := t.Metadata.Annotations[kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation]

	return warnIf(path, blocks && !allowed, "bridges to the pod network (use the binding passt, or, if the provider's network keeps the guest's addresses, "+
		"pod.allowBridgeLiveMigration)")
}
