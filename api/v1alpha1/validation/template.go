package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// TemplatePolicy says what virtualMachineTemplate may hold. The zero value allows none, as TemplateNone does.
type TemplatePolicy string

const (
	// TemplateNone allows no template.
	TemplateNone TemplatePolicy = "none"
	// TemplateSafe allows what stays inside the virtual machine's sandbox: no host disks, no service accounts, no hook sidecars.
	TemplateSafe TemplatePolicy = "safe"
	// TemplateAll allows everything that the driver does not own.
	TemplateAll TemplatePolicy = "all"
)

// TemplatePolicies are all there are.
var TemplatePolicies = []TemplatePolicy{TemplateNone, TemplateSafe, TemplateAll}

// SandboxAnnotations begin the keys of annotations that change the sandbox of the virtual machine's pod: KubeVirt's hook sidecars
// add containers (pkg/hooks), the others loosen what confines them. kubernetes/provider-cluster has the same.
var SandboxAnnotations = []string{
	"hooks.kubevirt.io/", "container.apparmor.security.beta.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/",
	"seccomp.security.alpha.kubernetes.io/", "io.kubernetes.cri", "io.kubernetes.container", "io.containerd.",
}

func template(spec *v1alpha1.ProviderSpec, options Options, path *field.Path) field.ErrorList {
	t := spec.VirtualMachineTemplate
	if t == nil {
		return nil
	}

	if options.Template != TemplateSafe && options.Template != TemplateAll {
		return field.ErrorList{field.Forbidden(path, "this installation does not allow it (--virtual-machine-template=none)")}
	}

	errs := metadata(spec, t.Metadata, path.Child("metadata"))
	errs = append(errs, runStrategy(spec, path.Child("spec", "runStrategy"))...)
	errs = append(errs, enumerations(&t.Spec, path.Child("spec"))...)
	errs = append(errs, owned(path.Child("spec"), []ownership{
		{"running", t.Spec.Running != nil, "use runStrategy"},
		{"dataVolumeTemplates", t.Spec.DataVolumeTemplates != nil, "use rootVolume and additionalVolumes of the providerSpec"},
	})...)

	if t.Spec.Template == nil {
		return errs
	}

	path = path.Child("spec", "template")
	errs = append(errs, metadata(spec, t.Spec.Template.Metadata, path.Child("metadata"))...)
	errs = append(errs, instance(spec, &t.Spec.Template.Spec, path.Child("spec"))...)
	errs = append(errs, evictionStrategy(spec, options, path.Child("spec", "evictionStrategy"))...)

	if options.Template == TemplateSafe {
		errs = append(errs, unsafe(t.Spec.Template, path)...)
	}

	return errs
}

// ownership is a field of the template that the driver sets itself.
type ownership struct {
	name    string
	given   bool
	instead string
}

func owned(path *field.Path, fields []ownership) field.ErrorList {
	var errs field.ErrorList

	for _, f := range fields {
		if f.given {
			errs = append(errs, field.Forbidden(path.Child(f.name), "the driver sets it; "+f.instead))
		}
	}

	return errs
}

// metadata judges labels and annotations, which KubeVirt does not do in a template: with a wrong one there, it never creates the
// machine's pod.
func metadata(spec *v1alpha1.ProviderSpec, meta v1alpha1.ObjectMeta, path *field.Path) field.ErrorList {
	labels := path.Child("labels")
	errs := metav1validation.ValidateLabels(meta.Labels, labels)
	errs = append(errs, apivalidation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))...)

	for _, key := range []string{"v1.multus-cni.io/default-network", "k8s.v1.cni.cncf.io/networks"} {
		if _, given := meta.Annotations[key]; given {
			errs = append(errs, field.Forbidden(path.Child("annotations").Key(key), "use networks of the providerSpec"))
		}
	}

	for key := range meta.Labels {
		if _, tag := spec.Tags[key]; tag {
			errs = append(errs, field.Forbidden(labels.Key(key), "it is one of the tags of the providerSpec; change it there"))
		} else if slices.Contains(driverLabels, key) || strings.HasPrefix(key, "kubevirt.machine.gardener.cloud/") {
			errs = append(errs, field.Forbidden(labels.Key(key), "the driver sets it; use another key"))
		}
	}

	return errs
}

// driverLabels are set by the driver on the objects of a machine, beside the tags and those of its own domain.
var driverLabels = []string{
	managedBy, "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/role",
	v1alpha1.LabelWorkerPool, v1alpha1.TagCluster, v1alpha1.TagRole,
}

// runStrategy allows the strategies with which a worker runs at all.
func runStrategy(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	given := spec.VirtualMachineTemplate.Spec.RunStrategy

	allowed := []kubevirtv1.VirtualMachineRunStrategy{
		kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce,
	}

	switch {
	case given == nil:
		return nil
	case !slices.Contains(allowed, *given):
		return field.ErrorList{field.NotSupported(path, *given, allowed)}
	case spec.RootVolume.ContainerDisk != nil && *given != kubevirtv1.RunStrategyOnce:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("with rootVolume.containerDisk it is %s: the machine would start again "+
			"with an empty disk and an old bootstrap token", kubevirtv1.RunStrategyOnce))}
	}

	return nil
}

// enumerations judges values that KubeVirt looks at only when it starts the machine.
func enumerations(t *v1alpha1.VirtualMachineTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	strategies := []kubevirtv1.UpdateVolumesStrategy{kubevirtv1.UpdateVolumesStrategyReplacement, kubevirtv1.UpdateVolumesStrategyMigration}
	if given := t.UpdateVolumesStrategy; given != nil && !slices.Contains(strategies, *given) {
		errs = append(errs, field.NotSupported(path.Child("updateVolumesStrategy"), *given, strategies))
	}

	if t.Instancetype != nil {
		errs = append(errs, kind(t.Instancetype.Kind, path.Child("instancetype", "kind"), "VirtualMachineClusterInstancetype", "VirtualMachineInstancetype")...)
	}

	if t.Preference != nil {
		errs = append(errs, kind(t.Preference.Kind, path.Child("preference", "kind"), "VirtualMachineClusterPreference", "VirtualMachinePreference")...)
	}

	return errs
}

// kind allows any case and a plural, as KubeVirt does. Its default is the first of the kinds.
func kind(given string, path *field.Path, kinds ...string) field.ErrorList {
	for _, known := range append(kinds, "") {
		if strings.EqualFold(given, known) || strings.EqualFold(given, known+"s") {
			return nil
		}
	}

	return field.ErrorList{field.NotSupported(path, given, kinds)}
}

func instance(spec *v1alpha1.ProviderSpec, vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	errs := owned(path, []ownership{
		{"hostname", vmi.Hostname != "", "the guest has the Machine's name, by which its node is found"},
		{"networks", vmi.Networks != nil, "use networks of the providerSpec"},
		{
			"accessCredentials", vmi.AccessCredentials != nil && len(spec.SSHKeys) > 0,
			"it would replace sshKeys of the providerSpec; give the keys in one place",
		},
	})
	if f := vmi.Domain.Firmware; f != nil {
		errs = append(errs, owned(path.Child("domain", "firmware"), []ownership{
			{"uuid", f.UUID != "", "each machine has its own, which is what tells cloud-init that it is new"},
			{"serial", f.Serial != "", "each machine has its own"},
		})...)
	}

	errs = append(errs, owned(path.Child("domain", "devices"), []ownership{
		{"interfaces", vmi.Domain.Devices.Interfaces != nil, "use networks of the providerSpec"},
	})...)
	errs = append(errs, templateVolumes(spec, vmi, path)...)
	errs = append(errs, scheduling(vmi, path)...)
	errs = append(errs, pod(vmi, path)...)
	errs = append(errs, domain(vmi, path.Child("domain"))...)

	if vmi.StartStrategy != nil {
		errs = append(errs, field.Forbidden(path.Child("startStrategy"), "a worker that starts paused never joins; remove it"))
	}

	return errs
}

// templateVolumes allows the two kinds of volumes that additionalVolumes does not have, with their disks. Whether they are safe
// is for unsafe to say.
func templateVolumes(spec *v1alpha1.ProviderSpec, vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	own := map[string]bool{}

	for i, volume := range vmi.Volumes {
		own[volume.Name] = hostVolume(volume) && !driverVolume(spec, volume.Name)
		if !own[volume.Name] {
			errs = append(errs, owned(path, []ownership{
				{fmt.Sprintf("volumes[%d]", i), true, "use rootVolume and additionalVolumes of the providerSpec"},
			})...)
		}
	}

	for i := range vmi.Domain.Devices.Disks {
		if !own[vmi.Domain.Devices.Disks[i].Name] {
			errs = append(errs, owned(path.Child("domain", "devices"), []ownership{
				{fmt.Sprintf("disks[%d]", i), true, "use devices.disks of the providerSpec"},
			})...)
		}
	}

	return errs
}

// driverVolume says whether the driver has a volume of that name.
func driverVolume(spec *v1alpha1.ProviderSpec, name string) bool {
	return name == v1alpha1.RootDisk || name == v1alpha1.CloudInitVolume ||
		slices.ContainsFunc(spec.AdditionalVolumes, func(v v1alpha1.AdditionalVolume) bool { return v.Name == name })
}

func hostVolume(volume kubevirtv1.Volume) bool {
	return volume.HostDisk != nil || volume.ServiceAccount != nil
}

// evictionStrategy refuses what would block every drain of a provider node for ever.
func evictionStrategy(spec *v1alpha1.ProviderSpec, options Options, path *field.Path) field.ErrorList {
	switch given := ptr.Deref(spec.VirtualMachineTemplate.Spec.Template.Spec.EvictionStrategy, ""); {
	case given == kubevirtv1.EvictionStrategyExternal && !options.Evacuation:
		return field.ErrorList{field.Forbidden(path,
			"nothing acts on it here, so that drains of provider nodes would never end; use LiveMigrateIfPossible (--evacuation would act on it)")}
	case given == kubevirtv1.EvictionStrategyLiveMigrate:
		return cannotMigrate(spec, path)
	}

	return nil
}

// unsafe returns what reaches out of the virtual machine's sandbox.
func unsafe(t *v1alpha1.VirtualMachineInstanceTemplate, path *field.Path) field.ErrorList {
	const remedy = "this installation does not allow it (--virtual-machine-template=all would)"

	var errs field.ErrorList

	for _, key := range slices.Sorted(maps.Keys(t.Metadata.Annotations)) {
		if slices.ContainsFunc(SandboxAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			errs = append(errs, field.Forbidden(path.Child("metadata", "annotations").Key(key), remedy))
		}
	}

	if t.Spec.ServiceAccountName != "" {
		errs = append(errs, field.Forbidden(path.Child("spec", "serviceAccountName"), remedy))
	}

	for i, volume := range t.Spec.Volumes {
		if hostVolume(volume) {
			errs = append(errs, field.Forbidden(path.Child("spec", "volumes").Index(i), remedy))
		}
	}

	return errs
}
