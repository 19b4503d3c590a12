// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Warning is a setting that works, but perhaps not as intended.
type Warning struct {
	// Field is the path of the field.
	Field string
	// Detail is the effect, followed by a remedy.
	Detail string
}

// Warnings returns the warnings about a spec: implausible sizes, settings that prevent live
// migration, images that may change behind their URL, data disks with a file system, interfaces
// that the guest does not configure, and deprecated fields. A warning never prevents the creation
// of a machine. mcm-kubevirt shows them to its users. The spec may be invalid.
func Warnings(spec *v1alpha1.ProviderSpec) []Warning {
	devices := ptr.Deref(spec.Devices, v1alpha1.Devices{})
	warnings := slices.Concat(
		sizeWarnings(spec),
		migrationWarnings(spec),
		mutableImageWarnings(spec, root().Child("rootVolume", "source")),
		ignoredSourceWarnings(spec),
		dataDiskWarnings(spec.AdditionalVolumes, root().Child("additionalVolumes")),
		networkDataWarnings(spec, root().Child("cloudInit", "networkData")),
		warnIf(root().Child("devices", "networkInterfaceMultiqueue"), devices.NetworkInterfaceMultiqueue,
			"is deprecated; use networkInterfaceMultiQueue"),
	)

	for i := range spec.Networks {
		path := root().Child("networks").Index(i).Child("sha")
		warnings = append(warnings, warnIf(path, spec.Networks[i].SHA != "", "is deprecated and ignored; remove it")...)
	}

	return warnings
}

// UserDataWarnings returns the warnings about a spec together with the architecture of its machines, in
// Go's terms, and their user data, as its author wrote it: Ignition supports less than cloud-init does,
// and cloud-init binds the network to a MAC address. There are none without user data. They never quote
// the user data.
func UserDataWarnings(spec *v1alpha1.ProviderSpec, architecture string, userData []byte) []Warning {
	if len(userData) == 0 {
		return nil
	}

	init := ptr.Deref(spec.CloudInit, v1alpha1.CloudInit{})
	configDrive := init.Type == v1alpha1.CloudInitConfigDrive

	if !isIgnition(userData) {
		return append(textWarnings(userData), restartWarnings(spec, architecture, init)...)
	}

	return slices.Concat(
		textWarnings(userData),
		warnIf(root().Child("cloudInit", "type"), !configDrive,
			"is NoCloud, but the user data is an Ignition config, which only images for Ignition's platform kubevirt read from there; "+
				"for other images, use ConfigDrive"),
		warnIf(root().Child("sshKeys"), len(spec.SSHKeys) > 0,
			"is ignored by Ignition, and the user data is an Ignition config; unless the image has another program that applies the keys, "+
				"add them to passwd.users of the config"),
	)
}

// restartWarnings returns a warning about machines with one interface for which the driver generates no
// network data. Warnings already reports several interfaces.
func restartWarnings(spec *v1alpha1.ProviderSpec, architecture string, init v1alpha1.CloudInit) []Warning {
	const effect = "is empty, so that images whose cloud-init binds the network to a MAC address, such as Debian and Ubuntu, have no network when the " +
		"machine restarts on another host; "

	path := root().Child("cloudInit", "networkData")
	loses := init.NetworkData == "" && !spec.HasSecondaryNetworks() && spec.ChangesMAC()

	if init.Type == v1alpha1.CloudInitConfigDrive {
		return warnIf(path, loses, effect+"use NoCloud, or set an OpenStack network_data.json with the name of the interface")
	}

	return warnIf(path, loses && !spec.HasPredictableInterface(architecture),
		effect+"set your own, since the driver knows the name of the interface only for a virtio or e1000e card of an amd64 or arm64 machine")
}

// warnIf returns a warning if the condition is true.
func warnIf(path *field.Path, condition bool, detail string) []Warning {
	if !condition {
		return nil
	}

	return []Warning{{Field: path.String(), Detail: detail}}
}

// migrationWarnings returns no warnings for a machine that is not meant to be migrated.
func migrationWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	if t, _ := instanceTemplate(spec); ptr.Deref(t.Spec.EvictionStrategy, "") == kubevirtv1.EvictionStrategyNone {
		return nil
	}

	var warnings []Warning

	for _, b := range MigrationBlockers(spec) {
		detail := "prevents live migration, since it " + b.Detail + "; draining the provider node stops the machine"
		if b.Remedy != "" {
			detail += "; " + b.Remedy
		}

		warnings = append(warnings, Warning{Field: b.Field, Detail: detail})
	}

	return warnings
}

// mutableImageWarnings returns warnings about golden images whose URL may refer to another image
// later: a URL is imported only once.
func mutableImageWarnings(spec *v1alpha1.ProviderSpec, path *field.Path) []Warning {
	if !spec.UsesGoldenImage() {
		return nil
	}

	const effect = "a URL is imported only once, so later images are not noticed; "

	http := ptr.Deref(spec.RootVolume.Source.HTTP, cdiv1beta1.DataVolumeSourceHTTP{})
	image := ptr.Deref(spec.RootVolume.Source.Registry, cdiv1beta1.DataVolumeSourceRegistry{}).URL

	return append(
		warnIf(path.Child("registry", "url"), image != nil && !namesVersion(*image),
			"does not name a version: "+effect+"use a tag with a version, or a digest"),
		warnIf(path.Child("http", "url"), http.Checksum == "" && mutableURL.MatchString(http.URL),
			"seems to refer to the latest of several images: "+effect+"use the URL of one version, or set a checksum")...)
}

// ignoredSourceWarnings returns warnings about fields that CDI ignores with pullMethod node: the provider
// node's container runtime pulls the image (createImportPod in CDI's pkg/controller/import-controller.go).
func ignoredSourceWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	const effect = "has no effect with pullMethod node, since the provider nodes pull the image with their own credentials and certificates; " +
		"configure the nodes, or use pullMethod pod"

	var warnings []Warning

	for path, volume := range spec.DataVolumes(root()) {
		registry := ptr.Deref(ptr.Deref(volume.Source, cdiv1beta1.DataVolumeSource{}).Registry, cdiv1beta1.DataVolumeSourceRegistry{})
		byNode := ptr.Deref(registry.PullMethod, "") == cdiv1beta1.RegistryPullNode
		path = path.Child("source", "registry")
		warnings = append(warnings, warnIf(path.Child("secretRef"), byNode && registry.SecretRef != nil, effect)...)
		warnings = append(warnings, warnIf(path.Child("certConfigMap"), byNode && registry.CertConfigMap != nil, effect)...)
	}

	return warnings
}

// mutableURL matches URLs under which distributions publish their latest image.
var mutableURL = regexp.MustCompile(`(?i)[/._-](latest|current|daily|nightly)([/._-]|$)`)

// namesVersion reports whether the URL of a container image has a digest, or a tag with a digit,
// which may be a version.
func namesVersion(url string) bool {
	if strings.Contains(url, "@sha256:") {
		return true
	}

	_, tag, tagged := strings.Cut(path.Base(url), ":")

	return tagged && strings.ContainsAny(tag, "0123456789")
}

// dataDiskWarnings recommends block volumes: Gardener finds the kubelet's disk by its exact size in
// bytes.
func dataDiskWarnings(volumes []v1alpha1.AdditionalVolume, path *field.Path) []Warning {
	var warnings []Warning

	for i, volume := range volumes {
		if volume.DataVolume == nil || volume.DataVolume.Storage == nil && volume.DataVolume.PVC == nil {
			continue
		}

		claim, at := claimOf(volume.DataVolume, path.Index(i).Child("dataVolume"))
		effect := "is Filesystem, so that the disk is smaller than requested"

		if volume.DataVolume.Storage != nil && claim.VolumeMode == nil {
			effect = "is not set; if the provider's storage profile chooses Filesystem, the disk is smaller than requested"
		}

		block := ptr.Deref(claim.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
		warnings = append(warnings, warnIf(at.Child("volumeMode"), !block, effect+"; use storage with volumeMode: Block")...)
	}

	return warnings
}

// networkDataWarnings returns warnings about machines with several interfaces, but without network
// data, and about network data without interfaces.
func networkDataWarnings(spec *v1alpha1.ProviderSpec, path *field.Path) []Warning {
	c := ptr.Deref(spec.CloudInit, v1alpha1.CloudInit{})
	detail := "is empty, and the generated network data finds the primary interface only with netplan or the names enp1s0 and eth0; " +
		"if the image has none of them, set your own"

	if c.Type == v1alpha1.CloudInitConfigDrive {
		detail = "is empty, and none is generated for ConfigDrive, so that the guest configures only its first interface; " +
			"set an OpenStack network_data.json, or use NoCloud"
	}

	return append(warnIf(path, spec.HasSecondaryNetworks() && c.NetworkData == "", detail), emptyNetworkDataWarnings(c, path)...)
}

// isIgnition reports whether user data is an Ignition config: a JSON object with a version of
// Ignition.
func isIgnition(userData []byte) bool {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}

	return json.Unmarshal(userData, &config) == nil && config.Ignition.Version != ""
}
