package validation

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Warning is something that works, but perhaps not as its author expects.
type Warning struct {
	// Field is the path of the field to look at.
	Field string
	// Detail says what happens, and what to do if that is not wanted.
	Detail string
}

// Warnings returns what is worth a second look in a spec: implausible sizes, what keeps a machine from being live-migrated, images
// that may change behind their address, data disks with a file system, networks that the guest does not configure, deprecated fields.
// None of it keeps a machine from being created. mcm-kubevirt shows them to its users. The spec may have faults.
func Warnings(spec *v1alpha1.ProviderSpec) []Warning {
	warnings := sizeWarnings(spec)
	warnings = append(warnings, migrationWarnings(spec)...)
	warnings = append(warnings, movingImageWarnings(spec, root().Child("rootVolume", "source"))...)
	warnings = append(warnings, dataDiskWarnings(spec.AdditionalVolumes, root().Child("additionalVolumes"))...)
	warnings = append(warnings, networkDataWarnings(spec, root().Child("cloudInit", "networkData"))...)

	if spec.Devices != nil && spec.Devices.NetworkInterfaceMultiqueue {
		warnings = append(warnings, warning(root().Child("devices", "networkInterfaceMultiqueue"),
			"is deprecated; spell it networkInterfaceMultiQueue"))
	}

	for i := range spec.Networks {
		if spec.Networks[i].SHA != "" {
			warnings = append(warnings, warning(root().Child("networks").Index(i).Child("sha"), "is deprecated and ignored; remove it"))
		}
	}

	return warnings
}

// UserDataWarnings returns what is worth a second look in a spec together with the user data of its machines: Ignition reads
// less than cloud-init does. It quotes nothing of the user data.
func UserDataWarnings(spec *v1alpha1.ProviderSpec, userData []byte) []Warning {
	if !isIgnition(userData) {
		return nil
	}

	var warnings []Warning

	if ptr.Deref(spec.CloudInit, v1alpha1.CloudInit{}).Type != v1alpha1.CloudInitConfigDrive {
		warnings = append(warnings, warning(root().Child("cloudInit", "type"),
			"is NoCloud, but the user data is an Ignition config: only images made for Ignition's platform kubevirt read it there; "+
				"for all others use ConfigDrive"))
	}

	if len(spec.SSHKeys) > 0 {
		warnings = append(warnings, warning(root().Child("sshKeys"),
			"are not read by Ignition, and the user data is an Ignition config: unless another program of the image applies them, "+
				"put them into its passwd.users"))
	}

	return warnings
}

func warning(path *field.Path, detail string) Warning {
	return Warning{Field: path.String(), Detail: detail}
}

// migrationWarnings are left out for a machine that is not to be migrated.
func migrationWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil &&
		ptr.Deref(t.Spec.Template.Spec.EvictionStrategy, "") == kubevirtv1.EvictionStrategyNone {
		return nil
	}

	var warnings []Warning
	for _, b := range migrationBlockers(spec) {
		warnings = append(warnings, warning(b.path,
			"rules out live migration, so that a drain of the provider node stops the machine: it "+b.reason))
	}

	return warnings
}

// movingImageWarnings are about golden images: what an address stands for is imported once, and never looked at again.
func movingImageWarnings(spec *v1alpha1.ProviderSpec, path *field.Path) []Warning {
	if !spec.UsesGoldenImage() {
		return nil
	}

	const effect = "the image is imported once per address, so that what is published there later is not noticed; "

	if r := spec.RootVolume.Source.Registry; r != nil && r.URL != nil && !namesVersion(*r.URL) {
		return []Warning{warning(path.Child("registry", "url"), "names no version: "+effect+"give a tag with a version, or a digest")}
	}

	if h := spec.RootVolume.Source.HTTP; h != nil && h.Checksum == "" && movingURL.MatchString(h.URL) {
		return []Warning{warning(path.Child("http", "url"), "seems to lead to the latest of several images: "+effect+
			"give the address of one version, or a checksum")}
	}

	return nil
}

// movingURL matches addresses under which distributions publish their newest image.
var movingURL = regexp.MustCompile(`(?i)[/._-](latest|current|daily|nightly)([/._-]|$)`)

// namesVersion says whether the address of a container image has a digest, or a tag that may be a version: one with a digit.
func namesVersion(address string) bool {
	if strings.Contains(address, "@sha256:") {
		return true
	}

	_, tag, tagged := strings.Cut(address[strings.LastIndex(address, "/")+1:], ":")

	return tagged && strings.ContainsAny(tag, "0123456789")
}

// dataDiskWarnings recommends block volumes. Gardener finds the kubelet's disk by its exact size in bytes.
func dataDiskWarnings(volumes []v1alpha1.AdditionalVolume, path *field.Path) []Warning {
	const remedy = "use storage with volumeMode: Block"

	var warnings []Warning

	for i, volume := range volumes {
		if volume.DataVolume == nil {
			continue
		}

		at := path.Index(i).Child("dataVolume")

		switch pvc, storage := volume.DataVolume.PVC, volume.DataVolume.Storage; {
		case pvc != nil && !isBlock(pvc.VolumeMode):
			warnings = append(warnings, warning(at.Child("pvc", "volumeMode"),
				"is Filesystem, in which a disk is smaller than asked for; "+remedy))
		case storage != nil && storage.VolumeMode == nil:
			warnings = append(warnings, warning(at.Child("storage", "volumeMode"),
				"is left to the provider's storage profile; if that chooses Filesystem, the disk is smaller than asked for; "+remedy))
		case storage != nil && !isBlock(storage.VolumeMode):
			warnings = append(warnings, warning(at.Child("storage", "volumeMode"),
				"is Filesystem, in which a disk is smaller than asked for; "+remedy))
		}
	}

	return warnings
}

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
}

// networkDataWarnings is about machines with several interfaces whose network data is not given.
func networkDataWarnings(spec *v1alpha1.ProviderSpec, path *field.Path) []Warning {
	c := ptr.Deref(spec.CloudInit, v1alpha1.CloudInit{})
	secondary := slices.ContainsFunc(spec.Networks, func(n v1alpha1.Network) bool { return !n.Default && n.Pod == nil })

	switch {
	case c.NetworkData != "" || !secondary:
		return nil
	case c.Type == v1alpha1.CloudInitConfigDrive:
		return []Warning{warning(path, "is empty, and none is generated for ConfigDrive: the guest configures its first interface only; "+
			"give an OpenStack network_data.json, or use NoCloud")}
	default:
		return []Warning{warning(path, "is empty, and the generated one finds the primary interface by netplan or systemd-networkd, or by the name "+
			"enp1s0; if the image has neither, give your own")}
	}
}

// isIgnition says whether user data is an Ignition config: a JSON object with a version of Ignition's.
func isIgnition(userData []byte) bool {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}

	return json.Unmarshal(userData, &config) == nil && config.Ignition.Version != ""
}
