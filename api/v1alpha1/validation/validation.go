// Package validation judges a ProviderSpec before anything is created from it: the driver's own invariants, and what KubeVirt
// accepts but then fails on for ever. The rest is KubeVirt's to judge. pkg/kubevirt calls it for CreateMachine only, and
// mcm-kubevirt for its users. It is pure: it knows no cluster.
package validation

import (
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Options are what an installation allows.
type Options struct {
	// Template says what virtualMachineTemplate may hold.
	Template TemplatePolicy
	// Evacuation says that the driver acts on evictionStrategy External (--evacuation), which nobody else does.
	Evacuation bool
}

// root is the path that every fault's field begins with.
func root() *field.Path {
	return field.NewPath("providerSpec")
}

// Decode reads a ProviderSpec from JSON, strictly, and validates it. It returns every fault at once, each with its field and a
// remedy, and never quotes secret data. Without faults the spec is complete and valid.
func Decode(raw []byte, options Options) (*v1alpha1.ProviderSpec, field.ErrorList) {
	spec, unreadable := v1alpha1.Decode(raw, root())
	if spec == nil {
		return nil, unreadable
	}

	// What could not be read is missing, which is not worth a second message.
	wrong := slices.DeleteFunc(ProviderSpec(spec, options), func(err *field.Error) bool {
		return slices.ContainsFunc(unreadable, func(have *field.Error) bool { return within(err.Field, have.Field) })
	})

	faults := slices.Concat(unreadable, wrong)

	return spec, faults[:min(len(faults), v1alpha1.MaxFaults)]
}

// within says whether a field is another, or in it.
func within(inner, outer string) bool {
	rest, ok := strings.CutPrefix(inner, outer)

	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// ProviderSpec returns every fault of a decoded spec, each with its field and a remedy.
func ProviderSpec(spec *v1alpha1.ProviderSpec, options Options) field.ErrorList {
	path := root()

	var errs field.ErrorList
	errs = append(errs, typeMeta(spec, path)...)
	errs = append(errs, topology(spec.Region, path.Child("region"))...)
	errs = append(errs, topology(spec.Zone, path.Child("zone"))...)
	errs = append(errs, Tags(spec.Tags, path.Child("tags"))...)
	errs = append(errs, memory(spec, path)...)
	errs = append(errs, cpu(spec.CPU, path.Child("cpu"))...)
	errs = append(errs, resources(spec.Resources, path.Child("resources"))...)
	errs = append(errs, rootVolume(spec, path)...)
	errs = append(errs, additionalVolumes(spec.AdditionalVolumes, path.Child("additionalVolumes"))...)
	errs = append(errs, disks(spec, path.Child("devices", "disks"))...)
	errs = append(errs, networks(spec.Networks, path.Child("networks"))...)
	errs = append(errs, cloudInit(spec.CloudInit, path.Child("cloudInit"))...)
	errs = append(errs, sshKeys(spec.SSHKeys, path.Child("sshKeys"))...)
	errs = append(errs, template(spec, options, path.Child("virtualMachineTemplate"))...)

	return errs
}

// reservedLabelDomains belong to the driver, KubeVirt and its cloud-controller-manager: a tag there would override what they
// rely on.
var reservedLabelDomains = []string{"kubevirt.machine.gardener.cloud/", "kubevirt.io/", "cluster.x-k8s.io/"}

// managedBy is the recommended Kubernetes label for the tool that manages an object.
const managedBy = "app.kubernetes.io/managed-by"

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

	if _, given := tags[managedBy]; given {
		errs = append(errs, field.Forbidden(path.Key(managedBy), "it names the driver; use another key"))
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

func typeMeta(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if spec.APIVersion != "" && spec.APIVersion != v1alpha1.APIVersion {
		errs = append(errs, field.NotSupported(path.Child("apiVersion"), spec.APIVersion, []string{v1alpha1.APIVersion}))
	}

	if spec.Kind != "" && spec.Kind != v1alpha1.Kind {
		errs = append(errs, field.NotSupported(path.Child("kind"), spec.Kind, []string{v1alpha1.Kind}))
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
