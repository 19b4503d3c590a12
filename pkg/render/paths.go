// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// fieldPath matches the path of a VirtualMachine's field in a message, but not a part of a host
// name, a URL or another path.
var fieldPath = regexp.MustCompile(`(^|[\s"'(,;:=])(spec|metadata)((?:\.[A-Za-z0-9]+(?:\[[0-9]+\])*)+)`)

// InTermsOfProviderSpec returns KubeVirt's message about a machine's VirtualMachine with
// the fields of the VirtualMachine replaced by the fields of the ProviderSpec that they
// come from, since users do not know the former. Fields without such an origin stay. vm is
// the result of VirtualMachine for the input.
func InTermsOfProviderSpec(message string, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) string {
	o := newOrigins(in, vm)

	return fieldPath.ReplaceAllStringFunc(message, func(match string) string {
		before := ""
		path := match
		if !strings.HasPrefix(match, "spec") && !strings.HasPrefix(match, "metadata") {
			before = match[:1]
			path = match[1:]
		}

		if origin := o.of(path); origin != "" {
			return before + origin
		}

		return match
	})
}

// origins maps the fields of a VirtualMachine to their origins.
type origins struct {
	in *spi.CreateMachineInput
	vm *kubevirtv1.VirtualMachine
	// rendered, template and spec are the VirtualMachine, the virtualMachineTemplate and the
	// ProviderSpec as decoded JSON.
	rendered, template, spec any
}

func newOrigins(in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) origins {
	o := origins{in: in, vm: vm}

	// If one of them is missing, fewer fields are translated.
	o.rendered, _ = asObject(vm)
	o.spec, _ = asObject(in.Spec)

	if in.Spec.VirtualMachineTemplate != nil {
		o.template, _ = given(in.Spec.VirtualMachineTemplate)
	}

	return o
}

// lists are the lists of the VirtualMachine that the driver generates, and the origin of an entry.
// rest is the path below the entry.
var lists = []struct {
	path   string
	origin func(o origins, index int, rest string) string
}{
	{"spec.dataVolumeTemplates", origins.dataVolumeTemplate},
	{"spec.template.spec.volumes", origins.volume},
	{"spec.template.spec.networks", origins.network},
	{"spec.template.spec.domain.devices.interfaces", origins.network},
	{"spec.template.spec.domain.devices.disks", origins.disk},
	{"spec.template.spec.accessCredentials", func(origins, int, string) string { return "providerSpec.sshKeys" }},
}

// fields are the other fields of the VirtualMachine that come from the ProviderSpec or the class.
var fields = []struct{ path, origin string }{
	{"spec.template.spec.domain.cpu", "providerSpec.cpu"},
	{"spec.template.spec.domain.memory", "providerSpec.memory"},
	{"spec.template.spec.domain.resources", "providerSpec.resources"},
	{"spec.template.spec.domain.devices.rng", "providerSpec.devices.rng"},
	{"spec.template.spec.domain.devices.blockMultiQueue", "providerSpec.devices.blockMultiQueue"},
	{"spec.template.spec.domain.devices.networkInterfaceMultiqueue", "providerSpec.devices.networkInterfaceMultiQueue"},
	{"spec.template.spec.dnsPolicy", "providerSpec.dnsPolicy"},
	{"spec.template.spec.dnsConfig", "providerSpec.dnsConfig"},
	{"spec.template.spec.architecture", "nodeTemplate.architecture"},
}

// of returns the origin of a field; empty if it has none.
func (o origins) of(path string) string {
	if found := o.inTemplate(path); found != "" {
		return "providerSpec.virtualMachineTemplate." + found
	}

	for _, l := range lists {
		if rest, ok := strings.CutPrefix(path, l.path+"["); ok {
			number, rest, _ := strings.Cut(rest, "]")
			if index, err := strconv.Atoi(number); err == nil {
				return l.origin(o, index, rest)
			}
		}
	}

	for _, f := range fields {
		if rest, ok := strings.CutPrefix(path, f.path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return f.origin + o.relocate(f.path, strings.TrimPrefix(f.origin, "providerSpec."), rest)
		}
	}

	return ""
}

// inTemplate returns the path of a field in the template, if the template sets it.
func (o origins) inTemplate(path string) string {
	steps, ok := walk(o.rendered, o.template, stepsOf(path))
	if !ok {
		return ""
	}

	return strings.TrimPrefix(join(steps), ".")
}

// relocate converts the path below a field of the VirtualMachine to the path below its origin in
// the spec: a list that was merged by name has other indexes there.
func (o origins) relocate(from, to, rest string) string {
	steps, ok := walk(at(o.rendered, stepsOf(from)), at(o.spec, stepsOf(to)), stepsOf(rest))
	if !ok {
		return rest
	}

	return join(steps)
}

// step is a step of a path: a field of an object, or an index of a list.
type step struct {
	name  string
	index int
}

func stepsOf(path string) []step {
	var steps []step

	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if index, err := strconv.Atoi(part); err == nil {
			steps = append(steps, step{index: index})
		} else {
			steps = append(steps, step{name: part})
		}
	}

	return steps
}

func join(steps []step) string {
	var b strings.Builder

	for _, s := range steps {
		if s.name != "" {
			b.WriteString("." + s.name)
		} else {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}

	return b.String()
}

func at(value any, steps []step) any {
	for _, s := range steps {
		value = s.of(value)
	}

	return value
}

func (s step) of(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return value[s.name]
	case []any:
		if s.name == "" && s.index < len(value) {
			return value[s.index]
		}
	}

	return nil
}

// walk follows a path of one tree in another, where the entries of named lists may have other
// indexes. It returns the path there, and whether the other tree has it.
func walk(here, there any, path []step) ([]step, bool) {
	steps := make([]step, 0, len(path))

	for _, s := range path {
		here = s.of(here)

		if list, ok := there.([]any); ok && nameOf(here) != "" && named(list) {
			s.index = slices.IndexFunc(list, func(entry any) bool { return nameOf(entry) == nameOf(here) })
		}

		if s.index < 0 {
			return nil, false
		}

		there = s.of(there)
		if there == nil {
			return nil, false
		}

		steps = append(steps, s)
	}

	return steps, true
}

func (o origins) dataVolumeTemplate(index int, rest string) string {
	if index >= len(o.vm.Spec.DataVolumeTemplates) {
		return "providerSpec.rootVolume"
	}

	rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".spec"), ".metadata")
	name := o.vm.Spec.DataVolumeTemplates[index].Name

	for i, volume := range o.in.Spec.AdditionalVolumes {
		if name == DataVolumeName(o.in.Name, o.in.UID, volume.Name) {
			return additionalVolume(i) + ".dataVolume" + rest
		}
	}

	return "providerSpec.rootVolume" + rest
}

func (o origins) volume(index int, rest string) string {
	volumes := o.vm.Spec.Template.Spec.Volumes
	if index >= len(volumes) {
		return "providerSpec.additionalVolumes"
	}

	return o.volumeNamed(volumes[index].Name, rest)
}

// volumeNamed returns the origin of a volume. The fields below it differ there, except for existing
// volumes and container disks.
func (o origins) volumeNamed(name, rest string) string {
	switch i := o.additionalIndex(name); {
	case i >= 0 && o.in.Spec.AdditionalVolumes[i].VolumeSource != nil:
		return additionalVolume(i) + ".volumeSource" + rest
	case i >= 0:
		return additionalVolume(i)
	case name == v1alpha1.RootDisk && o.in.Spec.RootVolume.ContainerDisk != nil:
		return "providerSpec.rootVolume" + rest
	case name == v1alpha1.RootDisk:
		return "providerSpec.rootVolume"
	case name == v1alpha1.CloudInitVolume:
		return "providerSpec.cloudInit"
	default:
		return "providerSpec.virtualMachineTemplate.spec.template.spec.volumes"
	}
}

func (o origins) additionalIndex(name string) int {
	return slices.IndexFunc(o.in.Spec.AdditionalVolumes, func(v v1alpha1.AdditionalVolume) bool { return v.Name == name })
}

func additionalVolume(i int) string {
	return "providerSpec.additionalVolumes[" + strconv.Itoa(i) + "]"
}

func (o origins) disk(index int, rest string) string {
	rendered := o.vm.Spec.Template.Spec.Domain.Devices.Disks
	if index >= len(rendered) {
		return "providerSpec.devices.disks"
	}

	if o.in.Spec.Devices != nil {
		for i := range o.in.Spec.Devices.Disks {
			if o.in.Spec.Devices.Disks[i].Name == rendered[index].Name {
				return "providerSpec.devices.disks[" + strconv.Itoa(i) + "]" + rest
			}
		}
	}

	return o.volumeNamed(rendered[index].Name, "")
}

func (o origins) network(index int, rest string) string {
	rendered := o.vm.Spec.Template.Spec.Networks
	if index >= len(rendered) {
		return "providerSpec.networks"
	}

	for i, n := range o.in.Spec.Networks {
		if (n.IsPrimary() && index == 0) || rendered[index].Name == secondaryName(i) {
			return "providerSpec.networks[" + strconv.Itoa(i) + "]" + rest
		}
	}

	return "providerSpec.networks"
}
