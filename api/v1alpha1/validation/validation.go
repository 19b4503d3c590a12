// Package validation judges a ProviderSpec before anything is created from it: the driver's own invariants, and what KubeVirt
// accepts but then fails on for ever. The rest is KubeVirt's to judge. pkg/kubevirt calls it for CreateMachine only. It is
// pure: it knows no cluster.
package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// reservedLabelDomains belong to the driver, KubeVirt and its cloud-controller-manager: a tag there would override what they
// rely on.
var reservedLabelDomains = []string{"kubevirt.machine.gardener.cloud/", "kubevirt.io/", "cluster.x-k8s.io/"}

// ProviderSpec returns every fault of the spec, each with its field and a remedy. It never quotes secret data.
func ProviderSpec(spec *v1alpha1.ProviderSpec) field.ErrorList {
	root := field.NewPath("providerSpec")

	var errs field.ErrorList
	errs = append(errs, typeMeta(spec, root)...)
	errs = append(errs, topology(spec.Region, root.Child("region"))...)
	errs = append(errs, topology(spec.Zone, root.Child("zone"))...)
	errs = append(errs, Tags(spec.Tags, root.Child("tags"))...)
	errs = append(errs, memory(spec, root)...)
	errs = append(errs, dataVolume(&spec.RootVolume, root.Child("rootVolume"))...)
	errs = append(errs, additionalVolumes(spec.AdditionalVolumes, root.Child("additionalVolumes"))...)
	errs = append(errs, disks(spec, root.Child("devices", "disks"))...)
	errs = append(errs, networks(spec.Networks, root.Child("networks"))...)

	return errs
}

// Tags returns the faults of a ProviderSpec's tags, which must be labels and carry the cluster and the role.
func Tags(tags map[string]string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(tags, path)

	if tags[v1alpha1.TagCluster] == "" {
		errs = append(errs, field.Required(path.Key(v1alpha1.TagCluster),
			"name the shoot (its technical ID): without it, machines of other shoots could be listed and deleted"))
	}

	if tags[v1alpha1.TagRole] == "" {
		errs = append(errs, field.Required(path.Key(v1alpha1.TagRole), `set the machines' role, usually "node"`))
	}

	for key := range tags {
		for _, domain := range reservedLabelDomains {
			if strings.HasPrefix(key, domain) {
				errs = append(errs, field.Forbidden(path.Key(key), "labels of "+domain+" are set by the driver; use another key"))
			}
		}
	}

	return errs
}

func typeMeta(spec *v1alpha1.ProviderSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList

	if spec.APIVersion != "" && spec.APIVersion != v1alpha1.APIVersion {
		errs = append(errs, field.NotSupported(root.Child("apiVersion"), spec.APIVersion, []string{v1alpha1.APIVersion}))
	}

	if spec.Kind != "" && spec.Kind != v1alpha1.Kind {
		errs = append(errs, field.NotSupported(root.Child("kind"), spec.Kind, []string{v1alpha1.Kind}))
	}

	return errs
}

func topology(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path,
			`name the provider nodes' topology label value, or "default" for nodes without that label`)}
	}

	var errs field.ErrorList
	for _, msg := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, msg))
	}

	return errs
}

// memory is checked here because KubeVirt accepts a VirtualMachine without any, and then never starts it.
func memory(spec *v1alpha1.ProviderSpec, root *field.Path) field.ErrorList {
	_, requested := spec.Resources.Requests[corev1.ResourceMemory]
	_, limited := spec.Resources.Limits[corev1.ResourceMemory]
	given := spec.Memory != nil && (spec.Memory.Guest != nil || spec.Memory.Hugepages != nil)

	if requested || limited || given {
		return nil
	}

	return field.ErrorList{field.Required(root.Child("memory", "guest"), "set the guest's memory, for example 8Gi")}
}

// dataVolume judges a DataVolume. What the source of a root volume holds, it boots from; an additional one may be blank.
func dataVolume(volume *cdiv1beta1.DataVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	switch {
	case volume.Source == nil && volume.SourceRef == nil:
		errs = append(errs, field.Required(path.Child("source"), "set a source or a sourceRef"))
	case volume.Source != nil && volume.SourceRef != nil:
		errs = append(errs, field.Forbidden(path.Child("sourceRef"), "set either source or sourceRef"))
	case volume.Source != nil && *volume.Source == (cdiv1beta1.DataVolumeSource{}):
		errs = append(errs, field.Required(path.Child("source"), "set one source, for example pvc, http, registry or, for data, blank"))
	}

	switch {
	case volume.PVC == nil && volume.Storage == nil:
		errs = append(errs, field.Required(path.Child("storage"), "set storage (or pvc) with at least a size"))
	case volume.PVC != nil && volume.Storage != nil:
		errs = append(errs, field.Forbidden(path.Child("pvc"), "set either storage or pvc"))
	}

	return errs
}

func networks(list []v1alpha1.Network, path *field.Path) field.ErrorList {
	var (
		errs       field.ErrorList
		hasDefault bool
		seen       = map[string]bool{}
	)

	for i, network := range list {
		entry := path.Index(i)

		if network.Name == "" {
			errs = append(errs, field.Required(entry.Child("name"), `name a NetworkAttachmentDefinition: "name" or "namespace/name"`))
		} else if seen[network.Name] {
			errs = append(errs, field.Forbidden(entry.Child("name"), "network "+network.Name+" is listed already; list it once"))
		}

		seen[network.Name] = true

		if network.Default && hasDefault {
			errs = append(errs, field.Forbidden(entry.Child("default"), "another network is the default already; a machine has one primary network"))
		}

		hasDefault = hasDefault || network.Default
	}

	return errs
}
