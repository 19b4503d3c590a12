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
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// MigrationBlocker is a field that prevents live migration.
type MigrationBlocker struct {
	// Field is the path of the field.
	Field string
	// Detail is the reason, as a verb with its object.
	Detail string
	// Remedy names the fields of the ProviderSpec that remove the blocker; empty if there are none.
	Remedy string
}

// validateLiveMigration refuses LiveMigrate for a machine that can never be live-migrated: each drain of
// its provider node would wait forever.
func validateLiveMigration(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	var reasons []string
	for _, b := range MigrationBlockers(spec) {
		reason := b.Field + " " + b.Detail
		if b.Remedy != "" {
			reason += " (" + b.Remedy + ")"
		}

		reasons = append(reasons, reason)
	}

	return forbid(path, len(reasons) > 0, "the machine cannot be live-migrated: "+strings.Join(reasons, "; ")+
		"; change that, or use LiveMigrateIfPossible")
}

// MigrationBlockers returns the fields of a spec that prevent live migration, each with the reason
// (KubeVirt, pkg/virt-handler/vm.go). Without blockers, the storage, a binding plugin or volumes that are attached later
// can still prevent it. The spec must be valid.
func MigrationBlockers(spec *v1alpha1.ProviderSpec) []MigrationBlocker {
	t, path := instanceTemplate(spec)
	domain, path := &t.Spec.Domain, path.Child("spec", "domain")
	passthrough := ptr.Deref(ptr.Deref(domain.Features, kubevirtv1.Features{}).HypervPassthrough, kubevirtv1.HyperVPassthrough{})

	return slices.Concat(
		volumeBlockers(spec),
		networkBlocker(spec),
		reservationBlockers(ptr.Deref(spec.Devices, v1alpha1.Devices{}).Disks, root().Child("devices", "disks")),
		reservationBlockers(domain.Devices.Disks, path.Child("devices", "disks")),
		blockIf(path.Child("devices", "gpus"), len(domain.Devices.GPUs) > 0, "passes through devices of the host"),
		blockIf(path.Child("devices", "hostDevices"), len(domain.Devices.HostDevices) > 0, "passes through devices of the host"),
		blockIf(path.Child("launchSecurity"), domain.LaunchSecurity != nil, "binds the guest to its host"),
		blockIf(path.Child("features", "hypervPassthrough"), ptr.Deref(passthrough.Enabled, false), "binds the guest to its host"),
	)
}

func blockIf(path *field.Path, condition bool, detail string) []MigrationBlocker {
	if !condition {
		return nil
	}

	return []MigrationBlocker{{Field: path.String(), Detail: detail}}
}

// IsMigratable reports whether it is known that machines with the spec can be live-migrated when they have started:
// nothing prevents it, and nothing decides it that the spec does not have, such as an instance type or a binding plugin.
// isShared reports whether the StorageProfile of a volume without access modes has ReadWriteMany. The spec must be valid.
func IsMigratable(spec *v1alpha1.ProviderSpec, isShared func(*cdiv1beta1.StorageSpec) bool) bool {
	if len(MigrationBlockers(spec)) > 0 || dependsOnOthers(spec) {
		return false
	}

	for _, volume := range spec.DataVolumes(root()) {
		if s := volume.Storage; s != nil && len(s.AccessModes) == 0 && !isShared(s) {
			return false
		}
	}

	return true
}

// dependsOnOthers reports whether something that the spec does not have decides whether the machine can be live-migrated: objects
// of the provider cluster, or the registration of a binding plugin.
func dependsOnOthers(spec *v1alpha1.ProviderSpec) bool {
	template := ptr.Deref(spec.VirtualMachineTemplate, v1alpha1.VirtualMachineTemplate{}).Spec
	t, _ := instanceTemplate(spec)

	return template.Instancetype != nil || template.Preference != nil || len(t.Spec.ResourceClaims) > 0 ||
		persists(&t.Spec.Domain) || hasClaims(spec, t.Spec.Volumes) ||
		slices.ContainsFunc(spec.Networks, func(n v1alpha1.Network) bool { return n.Binding != nil })
}

// persists reports whether the state of the firmware or the TPM is on a volume that KubeVirt creates.
func persists(domain *kubevirtv1.DomainSpec) bool {
	bootloader := ptr.Deref(ptr.Deref(domain.Firmware, kubevirtv1.Firmware{}).Bootloader, kubevirtv1.Bootloader{})
	tpm := ptr.Deref(domain.Devices.TPM, kubevirtv1.TPMDevice{})

	return ptr.Deref(tpm.Persistent, false) || ptr.Deref(ptr.Deref(bootloader.EFI, kubevirtv1.EFI{}).Persistent, false)
}

// hasClaims reports whether the machine has volumes whose access modes only the provider cluster has.
func hasClaims(spec *v1alpha1.ProviderSpec, volumes []kubevirtv1.Volume) bool {
	return slices.ContainsFunc(spec.AdditionalVolumes, func(v v1alpha1.AdditionalVolume) bool {
		return v.VolumeSource != nil && v.VolumeSource.PersistentVolumeClaim != nil
	}) || slices.ContainsFunc(volumes, func(v kubevirtv1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.DataVolume != nil || v.Ephemeral != nil || v.MemoryDump != nil
	})
}

// volumeBlockers returns the volumes that only one host can use. Without access modes in the spec,
// the storage profile of the provider's storage class decides.
func volumeBlockers(spec *v1alpha1.ProviderSpec) []MigrationBlocker {
	var blockers []MigrationBlocker

	for path, volume := range spec.DataVolumes(root()) {
		blockers = append(blockers, accessBlockers(volume, path)...)
	}

	t, path := instanceTemplate(spec)
	for i, volume := range t.Spec.Volumes {
		blocks := volume.HostDisk != nil && !ptr.Deref(volume.HostDisk.Shared, false)
		blockers = append(blockers, blockIf(path.Child("spec", "volumes").Index(i).Child("hostDisk"), blocks, "is a disk of one host")...)
	}

	return blockers
}

func accessBlockers(volume *v1alpha1.DataVolume, path *field.Path) []MigrationBlocker {
	claim, path := claimOf(volume, path)
	blocks := len(claim.AccessModes) > 0 && !slices.Contains(claim.AccessModes, corev1.ReadWriteMany)

	return blockIf(path.Child("accessModes"), blocks, "does not contain ReadWriteMany")
}

func reservationBlockers(disks []kubevirtv1.Disk, path *field.Path) []MigrationBlocker {
	var blockers []MigrationBlocker

	for i := range disks {
		blocks := disks[i].LUN != nil && disks[i].LUN.Reservation
		blockers = append(blockers, blockIf(path.Index(i).Child("lun", "reservation"), blocks, "requires a SCSI reservation")...)
	}

	return blockers
}

// networkBlocker returns a bridge to the pod network, unless the spec allows its migration: on another
// host, the guest would lose its address.
func networkBlocker(spec *v1alpha1.ProviderSpec) []MigrationBlocker {
	path := root().Child("networks")
	if i := slices.IndexFunc(spec.Networks, func(n v1alpha1.Network) bool { return n.Pod != nil }); i >= 0 {
		path = path.Index(i)
	}

	primary := spec.PrimaryNetwork()
	blocks := primary.Pod != nil && bridges(*primary) && !primary.Pod.AllowBridgeLiveMigration
	t, _ := instanceTemplate(spec)

	if _, allowed := t.Metadata.Annotations[kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation]; allowed || !blocks {
		return nil
	}

	return []MigrationBlocker{{
		Field:  path.String(),
		Detail: "connects the machine to the pod network by a bridge",
		Remedy: "set passtBinding: {}, or, if the provider's network keeps the guest's addresses, pod.allowBridgeLiveMigration, for the pod network",
	}}
}
