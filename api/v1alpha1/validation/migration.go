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

// blocker is a reason why a machine cannot be live-migrated, as far as the spec shows it (KubeVirt, pkg/virt-handler/vm.go).
type blocker struct {
	path   *field.Path
	reason string
}

// cannotMigrate refuses LiveMigrate for a machine that never can: each drain of its provider node would wait for ever.
func cannotMigrate(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	blockers := migrationBlockers(spec)
	if len(blockers) == 0 {
		return nil
	}

	reasons := make([]string, len(blockers))
	for i, b := range blockers {
		reasons[i] = b.path.String() + " " + b.reason
	}

	return field.ErrorList{field.Forbidden(path, "the machine cannot be live-migrated: "+strings.Join(reasons, "; ")+
		"; change that, or use LiveMigrateIfPossible")}
}

func migrationBlockers(spec *v1alpha1.ProviderSpec) []blocker {
	blockers := diskBlockers(spec)

	if b := networkBlocker(spec); b != nil {
		blockers = append(blockers, *b)
	}

	if spec.Devices != nil {
		blockers = append(blockers, reservationBlockers(spec.Devices.Disks, root().Child("devices", "disks"))...)
	}

	if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil {
		path := root().Child("virtualMachineTemplate", "spec", "template", "spec")
		blockers = append(blockers, domainBlockers(&t.Spec.Template.Spec.Domain, path.Child("domain"))...)
		blockers = append(blockers, hostDiskBlockers(t.Spec.Template.Spec.Volumes, path.Child("volumes"))...)
	}

	return blockers
}

func diskBlockers(spec *v1alpha1.ProviderSpec) []blocker {
	var blockers []blocker

	if spec.RootVolume.ContainerDisk == nil {
		blockers = append(blockers, accessBlockers(&spec.RootVolume.DataVolume, root().Child("rootVolume"))...)
	}

	for i, volume := range spec.AdditionalVolumes {
		if volume.DataVolume != nil {
			blockers = append(blockers, accessBlockers(volume.DataVolume, root().Child("additionalVolumes").Index(i).Child("dataVolume"))...)
		}
	}

	return blockers
}

// accessBlockers looks at access modes that are given. Without any, the storage profile of the provider's storage class decides.
func accessBlockers(volume *v1alpha1.DataVolume, path *field.Path) []blocker {
	var modes []corev1.PersistentVolumeAccessMode

	switch {
	case volume.Storage != nil:
		modes, path = volume.Storage.AccessModes, path.Child("storage", "accessModes")
	case volume.PVC != nil:
		modes, path = volume.PVC.AccessModes, path.Child("pvc", "accessModes")
	}

	if len(modes) == 0 || slices.Contains(modes, corev1.ReadWriteMany) {
		return nil
	}

	return []blocker{{path, "has no ReadWriteMany"}}
}

func reservationBlockers(disks []kubevirtv1.Disk, path *field.Path) []blocker {
	var blockers []blocker

	for i := range disks {
		if lun := disks[i].LUN; lun != nil && lun.Reservation {
			blockers = append(blockers, blocker{path.Index(i).Child("lun", "reservation"), "holds a SCSI reservation"})
		}
	}

	return blockers
}

func hostDiskBlockers(volumes []kubevirtv1.Volume, path *field.Path) []blocker {
	var blockers []blocker

	for i, volume := range volumes {
		if disk := volume.HostDisk; disk != nil && !ptr.Deref(disk.Shared, false) {
			blockers = append(blockers, blocker{path.Index(i).Child("hostDisk"), "stays with its host"})
		}
	}

	return blockers
}

// networkBlocker is a bridge on the pod network: the guest would lose its address.
func networkBlocker(spec *v1alpha1.ProviderSpec) *blocker {
	path := root().Child("networks")

	for i, n := range spec.Networks {
		if n.Default || (n.Pod != nil && (n.Masquerade != nil || n.Binding != nil)) {
			return nil
		}

		if n.Pod != nil {
			path = path.Index(i)
		}
	}

	if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil {
		if _, allowed := t.Spec.Template.Metadata.Annotations[kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation]; allowed {
			return nil
		}
	}

	return &blocker{path, "bridges to the pod network (if its addresses move along, the annotation " +
		kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation + " in the template's metadata says so)"}
}

func domainBlockers(domain *kubevirtv1.DomainSpec, path *field.Path) []blocker {
	blockers := reservationBlockers(domain.Devices.Disks, path.Child("devices", "disks"))

	if len(domain.Devices.GPUs) > 0 {
		blockers = append(blockers, blocker{path.Child("devices", "gpus"), "passes devices of the host through"})
	}

	if len(domain.Devices.HostDevices) > 0 {
		blockers = append(blockers, blocker{path.Child("devices", "hostDevices"), "passes devices of the host through"})
	}

	if domain.LaunchSecurity != nil {
		blockers = append(blockers, blocker{path.Child("launchSecurity"), "binds the guest to its host"})
	}

	if f := domain.Features; f != nil && f.HypervPassthrough != nil && ptr.Deref(f.HypervPassthrough.Enabled, false) {
		blockers = append(blockers, blocker{path.Child("features", "hypervPassthrough"), "binds the guest to its host"})
	}

	return blockers
}
