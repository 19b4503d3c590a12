package render

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// fieldPath matches the path of a VirtualMachine's field in a message.
var fieldPath = regexp.MustCompile(`\b(spec|metadata)(\.[A-Za-z0-9]+(\[[0-9]+\])*)+`)

// InTermsOfProviderSpec returns a message of KubeVirt's about a machine's VirtualMachine with the fields of the VirtualMachine
// replaced by those of the ProviderSpec that they come from: the user does not know the former. vm is what VirtualMachine
// returned for the input.
func InTermsOfProviderSpec(message string, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) string {
	o := origins{in: in, vm: vm}

	return fieldPath.ReplaceAllStringFunc(message, func(path string) string {
		return "providerSpec." + o.of(path)
	})
}

// origins knows where the fields of a VirtualMachine come from.
type origins struct {
	in *spi.CreateMachineInput
	vm *kubevirtv1.VirtualMachine
}

// list is a list of the VirtualMachine, and what an entry of it comes from. rest is the path below the entry.
type list struct {
	path   string
	origin func(o origins, index int, rest string) string
}

var lists = []list{
	{"spec.dataVolumeTemplates", origins.dataVolumeTemplate},
	{"spec.template.spec.volumes", origins.volume},
	{"spec.template.spec.networks", origins.network},
	{"spec.template.spec.domain.devices.interfaces", origins.network},
	{"spec.template.spec.domain.devices.disks", origins.disk},
	{"spec.template.spec.accessCredentials", func(origins, int, string) string { return "sshKeys" }},
}

// fields are the other fields of the VirtualMachine that the ProviderSpec has too.
var fields = []struct{ path, origin string }{
	{"spec.template.spec.domain.cpu", "cpu"},
	{"spec.template.spec.domain.memory", "memory"},
	{"spec.template.spec.domain.resources", "resources"},
	{"spec.template.spec.domain.devices.rng", "devices.rng"},
	{"spec.template.spec.domain.devices.blockMultiQueue", "devices.blockMultiQueue"},
	{"spec.template.spec.domain.devices.networkInterfaceMultiqueue", "devices.networkInterfaceMultiQueue"},
	{"spec.template.spec.dnsPolicy", "dnsPolicy"},
	{"spec.template.spec.dnsConfig", "dnsConfig"},
	{"metadata.labels", "tags"},
	{"spec.template.metadata.labels", "tags"},
}

func (o origins) of(path string) string {
	if o.inTemplate(path) {
		return "virtualMachineTemplate." + path
	}

	for _, l := range lists {
		if rest, ok := strings.CutPrefix(path, l.path+"["); ok {
			number, rest, _ := strings.Cut(rest, "]")

			index, err := strconv.Atoi(number)
			if err != nil {
				break
			}

			return l.origin(o, index, rest)
		}
	}

	for _, f := range fields {
		if rest, ok := strings.CutPrefix(path, f.path); ok && (rest == "" || rest[0] == '.') {
			return f.origin + rest
		}
	}

	return "virtualMachineTemplate." + path
}

// inTemplate says whether the template itself gives a field.
func (o origins) inTemplate(path string) bool {
	if o.in.Spec.VirtualMachineTemplate == nil {
		return false
	}

	object, err := asObject(o.in.Spec.VirtualMachineTemplate)
	if err != nil {
		return false
	}

	var value any = object

	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch node := value.(type) {
		case map[string]any:
			value = node[step]
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index >= len(node) {
				return false
			}

			value = node[index]
		default:
			return false
		}
	}

	return value != nil
}

func (o origins) dataVolumeTemplate(index int, rest string) string {
	if index >= len(o.vm.Spec.DataVolumeTemplates) {
		return "rootVolume"
	}

	rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".spec"), ".metadata")
	name := o.vm.Spec.DataVolumeTemplates[index].Name

	for i, volume := range o.in.Spec.AdditionalVolumes {
		if name == DataVolumeName(o.in.Name, o.in.UID, volume.Name) {
			return additionalVolume(i) + ".dataVolume" + rest
		}
	}

	return "rootVolume" + rest
}

func (o origins) volume(index int, rest string) string {
	volumes := o.vm.Spec.Template.Spec.Volumes
	if index >= len(volumes) {
		return "additionalVolumes"
	}

	return o.volumeNamed(volumes[index].Name, rest)
}

// volumeNamed returns where a volume comes from. What is below it has another form there, save for what exists already.
func (o origins) volumeNamed(name, rest string) string {
	switch i := o.additionalIndex(name); {
	case i >= 0 && o.in.Spec.AdditionalVolumes[i].VolumeSource != nil:
		return additionalVolume(i) + ".volumeSource" + rest
	case i >= 0:
		return additionalVolume(i)
	case name == v1alpha1.RootDisk && o.in.Spec.RootVolume.ContainerDisk != nil:
		return "rootVolume" + rest
	case name == v1alpha1.RootDisk:
		return "rootVolume"
	case name == v1alpha1.CloudInitVolume:
		return "cloudInit"
	default:
		return "virtualMachineTemplate.spec.template.spec.volumes"
	}
}

func (o origins) additionalIndex(name string) int {
	return slices.IndexFunc(o.in.Spec.AdditionalVolumes, func(v v1alpha1.AdditionalVolume) bool { return v.Name == name })
}

func additionalVolume(i int) string {
	return "additionalVolumes[" + strconv.Itoa(i) + "]"
}

func (o origins) disk(index int, rest string) string {
	rendered := o.vm.Spec.Template.Spec.Domain.Devices.Disks
	if index >= len(rendered) {
		return "devices.disks"
	}

	if o.in.Spec.Devices != nil {
		for i := range o.in.Spec.Devices.Disks {
			if o.in.Spec.Devices.Disks[i].Name == rendered[index].Name {
				return "devices.disks[" + strconv.Itoa(i) + "]" + rest
			}
		}
	}

	return o.volumeNamed(rendered[index].Name, "")
}

func (o origins) network(index int, rest string) string {
	rendered := o.vm.Spec.Template.Spec.Networks
	if index >= len(rendered) {
		return "networks"
	}

	for i, n := range o.in.Spec.Networks {
		if (isPrimary(n) && index == 0) || rendered[index].Name == secondaryName(i) {
			return "networks[" + strconv.Itoa(i) + "]" + rest
		}
	}

	return "networks"
}
