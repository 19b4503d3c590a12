// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// TemplatePolicy restricts virtualMachineTemplate. The zero value is like TemplateNone.
type TemplatePolicy string

const (
	// TemplateNone allows no template.
	TemplateNone TemplatePolicy = "none"
	// TemplateSafe allows settings that stay inside the virtual machine's sandbox: no host disks,
	// no service accounts, no hook sidecars.
	TemplateSafe TemplatePolicy = "safe"
	// TemplateAll allows everything that the driver does not set itself.
	TemplateAll TemplatePolicy = "all"
)

// TemplatePolicies are all policies.
var TemplatePolicies = []TemplatePolicy{TemplateNone, TemplateSafe, TemplateAll}

// SandboxAnnotations are prefixes of annotations that change the sandbox of the virtual machine's
// pod: KubeVirt's hook sidecars add containers (pkg/hooks), the others relax its confinement.
// kubernetes/provider-cluster has the same list.
var SandboxAnnotations = []string{
	"hooks.kubevirt.io/", "container.apparmor.security.beta.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/",
	"seccomp.security.alpha.kubernetes.io/", "io.kubernetes.cri", "io.kubernetes.container", "io.containerd.",
}

// Remedies shared by several fields.
const (
	setByDriver = "the driver sets it; "
	useNetworks = setByDriver + "use networks of the providerSpec"
	onlyWithAll = "this installation does not allow it (--virtual-machine-template=all would)"
)

// instanceTemplate returns the VirtualMachineInstance of the template, and its path. Without a
// template, it is empty.
func instanceTemplate(spec *v1alpha1.ProviderSpec) (v1alpha1.VirtualMachineInstanceTemplate, *field.Path) {
	t := ptr.Deref(spec.VirtualMachineTemplate, v1alpha1.VirtualMachineTemplate{})

	return ptr.Deref(t.Spec.Template, v1alpha1.VirtualMachineInstanceTemplate{}), root().Child("virtualMachineTemplate", "spec", "template")
}

func validateTemplate(spec *v1alpha1.ProviderSpec, options Options, path *field.Path) field.ErrorList {
	t := spec.VirtualMachineTemplate
	if t == nil {
		return nil
	}

	if options.Template != TemplateSafe && options.Template != TemplateAll {
		return field.ErrorList{field.Forbidden(path, "this installation does not allow it (--virtual-machine-template=none)")}
	}

	vmi, vmiPath := instanceTemplate(spec)
	errs := slices.Concat(
		validateMetadata(spec, t.Metadata, path.Child("metadata")),
		validateRunStrategy(spec, path.Child("spec", "runStrategy")),
		validateEnumerations(&t.Spec, path.Child("spec")),
		forbid(path.Child("spec", "running"), t.Spec.Running != nil, setByDriver+"use runStrategy"),
		forbid(path.Child("spec", "dataVolumeTemplates"), t.Spec.DataVolumeTemplates != nil,
			setByDriver+"use rootVolume and additionalVolumes of the providerSpec"),
		validateMetadata(spec, vmi.Metadata, vmiPath.Child("metadata")),
		validateInstance(spec, &vmi.Spec, vmiPath.Child("spec")),
		validateEvictionStrategy(spec, options, vmiPath.Child("spec", "evictionStrategy")),
	)

	if options.Template == TemplateSafe {
		errs = append(errs, validateSandbox(vmi, vmiPath)...)
	}

	return errs
}

// validateMetadata validates labels and annotations, which KubeVirt does not do in a template: with an
// invalid one, it never creates the machine's pod.
func validateMetadata(spec *v1alpha1.ProviderSpec, meta v1alpha1.ObjectMeta, path *field.Path) field.ErrorList {
	labels := path.Child("labels")
	annotations := path.Child("annotations")
	errs := append(metav1validation.ValidateLabels(meta.Labels, labels), apivalidation.ValidateAnnotations(meta.Annotations, annotations)...)

	for _, key := range []string{"v1.multus-cni.io/default-network", "k8s.v1.cni.cncf.io/networks"} {
		_, set := meta.Annotations[key]
		errs = append(errs, forbid(annotations.Key(key), set, useNetworks)...)
	}

	for _, key := range slices.Sorted(maps.Keys(meta.Labels)) {
		if _, tag := spec.Tags[key]; tag {
			errs = append(errs, field.Forbidden(labels.Key(key), "it is one of the tags of the providerSpec; change it there"))
		} else if slices.Contains(driverLabels, key) || strings.HasPrefix(key, "kubevirt.machine.gardener.cloud/") {
			errs = append(errs, field.Forbidden(labels.Key(key), setByDriver+"use another key"))
		} else if strings.HasPrefix(key, extensionLabels) {
			errs = append(errs, field.Forbidden(labels.Key(key), "Gardener's extension sets these labels, for example on bastions, to which other network policies apply; use another key"))
		}
	}

	return errs
}

// extensionLabels is the prefix of the labels of Gardener's extension. The policy for machines in its provider-namespace does not select
// bastions.
const extensionLabels = "kubevirt.provider.extensions.gardener.cloud/"

// driverLabels are the labels that the driver sets on the objects of a machine, in addition to the
// tags and the labels of its own domain.
var driverLabels = []string{
	v1alpha1.LabelManagedBy, "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/role",
	v1alpha1.LabelWorkerPool, v1alpha1.TagCluster, v1alpha1.TagRole,
}

// validateRunStrategy allows the strategies with which a worker runs at all. With a container disk, a
// machine must not start again.
func validateRunStrategy(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	strategy := ptr.Deref(spec.VirtualMachineTemplate.Spec.RunStrategy, kubevirtv1.RunStrategyOnce)

	if errs := validateOneOf(path, strategy, kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce); errs != nil {
		return errs
	}

	return forbid(path, spec.RootVolume.ContainerDisk != nil && strategy != kubevirtv1.RunStrategyOnce,
		"with rootVolume.containerDisk it must be Once; the machine would start again with an empty disk and an expired bootstrap token")
}

// validateEnumerations validates values that KubeVirt does not validate before it starts the machine.
func validateEnumerations(t *v1alpha1.VirtualMachineTemplateSpec, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateOneOf(path.Child("updateVolumesStrategy"), ptr.Deref(t.UpdateVolumesStrategy, kubevirtv1.UpdateVolumesStrategyReplacement),
			kubevirtv1.UpdateVolumesStrategyReplacement, kubevirtv1.UpdateVolumesStrategyMigration),
		validateKind(ptr.Deref(t.Instancetype, kubevirtv1.InstancetypeMatcher{}).Kind, path.Child("instancetype", "kind"),
			"VirtualMachineClusterInstancetype", "VirtualMachineInstancetype"),
		validateKind(ptr.Deref(t.Preference, kubevirtv1.PreferenceMatcher{}).Kind, path.Child("preference", "kind"),
			"VirtualMachineClusterPreference", "VirtualMachinePreference"),
	)
}

// validateKind allows upper and lower case and a plural, as KubeVirt does, and an empty kind, which is the
// first one.
func validateKind(value string, path *field.Path, kinds ...string) field.ErrorList {
	for _, known := range append(kinds, "") {
		if strings.EqualFold(value, known) || strings.EqualFold(value, known+"s") {
			return nil
		}
	}

	return field.ErrorList{field.NotSupported(path, value, kinds)}
}

func validateInstance(spec *v1alpha1.ProviderSpec, vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	firmware := ptr.Deref(vmi.Domain.Firmware, kubevirtv1.Firmware{})

	return slices.Concat(
		forbid(path.Child("hostname"), vmi.Hostname != "", setByDriver+"it is the Machine's name, by which its node is found; remove it"),
		forbid(path.Child("networks"), vmi.Networks != nil, useNetworks),
		forbid(path.Child("accessCredentials"), vmi.AccessCredentials != nil && len(spec.SSHKeys) > 0,
			"it would replace sshKeys of the providerSpec; set only one of them"),
		forbid(path.Child("domain", "firmware", "uuid"), firmware.UUID != "",
			setByDriver+"each machine has its own, by which cloud-init recognizes a new machine; remove it"),
		forbid(path.Child("domain", "firmware", "serial"), firmware.Serial != "", setByDriver+"each machine has its own; remove it"),
		forbid(path.Child("domain", "devices", "interfaces"), vmi.Domain.Devices.Interfaces != nil, useNetworks),
		// pkg/virt-api/webhooks/validating-webhook/admitters/vmi-create-admitter.go of KubeVirt 1.8 and 1.9
		forbid(path.Child("utilityVolumes"), len(vmi.UtilityVolumes) > 0, "KubeVirt attaches them only to running virtual machines; remove it"),
		forbid(path.Child("startStrategy"), vmi.StartStrategy != nil, "a worker that starts paused never joins the cluster; remove it"),
		validateTemplateVolumes(spec, vmi, path),
		validateScheduling(vmi, path),
		validatePod(vmi, path),
		validateDomain(vmi, path.Child("domain")),
	)
}

// validateTemplateVolumes allows the two kinds of volumes that additionalVolumes does not have, with their
// disks. Whether they are safe is checked by unsafe.
func validateTemplateVolumes(spec *v1alpha1.ProviderSpec, vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	allowed := map[string]bool{}
	created := driverVolumes(spec)

	for i, volume := range vmi.Volumes {
		allowed[volume.Name] = hostVolume(volume) && !created.Has(volume.Name)
		errs = append(errs, forbid(path.Child("volumes").Index(i), !allowed[volume.Name],
			setByDriver+"use rootVolume and additionalVolumes of the providerSpec")...)
	}

	for i, disk := range vmi.Domain.Devices.Disks {
		errs = append(errs, forbid(path.Child("domain", "devices", "disks").Index(i), !allowed[disk.Name],
			setByDriver+"use devices.disks of the providerSpec")...)
	}

	return errs
}

// driverVolumes returns the names of the volumes that the driver creates.
func driverVolumes(spec *v1alpha1.ProviderSpec) sets.Set[string] {
	names := sets.New(v1alpha1.RootDisk, v1alpha1.CloudInitVolume)
	for _, volume := range spec.AdditionalVolumes {
		names.Insert(volume.Name)
	}

	return names
}

func hostVolume(volume kubevirtv1.Volume) bool {
	return volume.HostDisk != nil || volume.ServiceAccount != nil
}

// validateEvictionStrategy refuses strategies with which a drain of the provider node would never end.
func validateEvictionStrategy(spec *v1alpha1.ProviderSpec, options Options, path *field.Path) field.ErrorList {
	t, _ := instanceTemplate(spec)
	strategy := ptr.Deref(t.Spec.EvictionStrategy, "")

	if strategy == kubevirtv1.EvictionStrategyLiveMigrate {
		return validateLiveMigration(spec, path)
	}

	return forbid(path, strategy == kubevirtv1.EvictionStrategyExternal && !options.Evacuation,
		"without --evacuation, no controller acts on it, so that drains of provider nodes would never end; use LiveMigrateIfPossible")
}

// validateSandbox returns an error for each setting that affects more than the virtual machine's sandbox.
func validateSandbox(t v1alpha1.VirtualMachineInstanceTemplate, path *field.Path) field.ErrorList {
	errs := forbid(path.Child("spec", "serviceAccountName"), t.Spec.ServiceAccountName != "", onlyWithAll)

	for _, key := range slices.Sorted(maps.Keys(t.Metadata.Annotations)) {
		errs = append(errs, forbid(path.Child("metadata", "annotations").Key(key), hasPrefix(key, SandboxAnnotations), onlyWithAll)...)
	}

	for i, volume := range t.Spec.Volumes {
		errs = append(errs, forbid(path.Child("spec", "volumes").Index(i), hostVolume(volume), onlyWithAll)...)
	}

	return errs
}
