package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// summarize prints a summary of a machine for people.
func summarize(out io.Writer, class machineClass, result rendered) error {
	in, vm := result.input, result.vm
	fmt.Fprintf(out, "VirtualMachine %s/%s of MachineClass %s\n", vm.Namespace, vm.Name, class.Name)

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows(table, "region", in.Spec.Region)
	rows(table, "zone", in.Spec.Zone)
	summarizeGuest(table, vm)
	rows(table, "volumes", volumes(vm)...)
	rows(table, "golden image", goldenImage(result.image))
	rows(table, "networks", networks(&vm.Spec.Template.Spec)...)
	rows(table, "secrets", keys(result.secrets)...)
	rows(table, "labels", labels(vm.Labels)...)

	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	r := classReport{}
	r.addSpecWarnings(class, in.Spec)
	printFindings(out, "warning", r.sorted().Warnings)

	return nil
}

func summarizeGuest(table io.Writer, vm *kubevirtv1.VirtualMachine) {
	vmi := &vm.Spec.Template.Spec

	rows(table, "instancetype", instancetype(vm.Spec.Instancetype))
	rows(table, "cpu", cpu(vmi.Domain.CPU))
	rows(table, "memory", memory(vmi.Domain.Memory))
	rows(table, "requests", resources(vmi.Domain.Resources.Requests))
	rows(table, "limits", resources(vmi.Domain.Resources.Limits))
	rows(table, "architecture", vmi.Architecture)
	rows(table, "run strategy", string(ptr.Deref(vm.Spec.RunStrategy, "")))
	rows(table, "eviction strategy", string(ptr.Deref(vmi.EvictionStrategy, "")))
}

// rows prints values below each other; nothing if there are none.
func rows(table io.Writer, name string, values ...string) {
	for _, value := range values {
		if value != "" {
			fmt.Fprintf(table, "  %s\t%s\n", name, value)
			name = ""
		}
	}
}

func volumes(vm *kubevirtv1.VirtualMachine) []string {
	var list []string
	for i := range vm.Spec.Template.Spec.Volumes {
		v := &vm.Spec.Template.Spec.Volumes[i]
		list = append(list, v.Name+": "+volume(v, vm.Spec.DataVolumeTemplates))
	}

	return list
}

func networks(vmi *kubevirtv1.VirtualMachineInstanceSpec) []string {
	var list []string
	for _, n := range vmi.Networks {
		list = append(list, n.Name+": "+network(n, vmi.Domain.Devices.Interfaces))
	}

	return list
}

func keys(secrets []*corev1.Secret) []string {
	var list []string
	for _, s := range secrets {
		list = append(list, s.Name+": "+strings.Join(slices.Sorted(maps.Keys(s.Data)), ", "))
	}

	return list
}

func labels(of map[string]string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		list = append(list, key+"="+of[key])
	}

	return list
}

func instancetype(m *kubevirtv1.InstancetypeMatcher) string {
	if m == nil {
		return ""
	}

	return strings.TrimSpace(m.Kind + " " + m.Name)
}

func cpu(c *kubevirtv1.CPU) string {
	if c == nil {
		return ""
	}

	var parts []string

	for _, p := range []struct {
		n    uint32
		noun string
	}{{c.Sockets, "socket"}, {c.Cores, "core"}, {c.Threads, "thread"}} {
		if p.n > 0 {
			parts = append(parts, count(int(p.n), p.noun))
		}
	}

	if c.Model != "" {
		parts = append(parts, "model "+c.Model)
	}

	return strings.Join(parts, ", ")
}

func memory(m *kubevirtv1.Memory) string {
	if m == nil {
		return ""
	}

	var parts []string
	if m.Guest != nil {
		parts = append(parts, m.Guest.String())
	}

	if m.Hugepages != nil {
		parts = append(parts, "pages of "+m.Hugepages.PageSize)
	}

	return strings.Join(parts, ", ")
}

func resources(list corev1.ResourceList) string {
	var parts []string

	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, string(name)+" "+quantity.String())
	}

	return strings.Join(parts, ", ")
}

// volume describes the source of a volume.
func volume(v *kubevirtv1.Volume, templates []kubevirtv1.DataVolumeTemplateSpec) string {
	if v.DataVolume == nil {
		return only(v.VolumeSource)
	}

	for i := range templates {
		if templates[i].Name == v.DataVolume.Name {
			return strings.Join(slices.DeleteFunc(
				[]string{size(&templates[i].Spec), dataSource(&templates[i].Spec), "DataVolume " + v.DataVolume.Name},
				func(s string) bool { return s == "" }), ", ")
		}
	}

	return "DataVolume " + v.DataVolume.Name
}

// goldenImage describes the golden image that the root disk is cloned from, if there is one.
func goldenImage(image *cdiv1beta1.DataVolume) string {
	if image == nil {
		return ""
	}

	return size(&image.Spec) + ", " + dataSource(&image.Spec) + ", DataVolume " + image.Name
}

func size(spec *cdiv1beta1.DataVolumeSpec) string {
	volume := v1alpha1.DataVolume{DataVolumeSpec: *spec}
	if quantity := volume.Size(); quantity != nil {
		return quantity.String()
	}

	return "size of its source"
}

func dataSource(spec *cdiv1beta1.DataVolumeSpec) string {
	if ref := spec.SourceRef; ref != nil {
		return strings.TrimSpace("from " + ref.Kind + " " + strings.TrimPrefix(ptr.Deref(ref.Namespace, "")+"/"+ref.Name, "/"))
	}

	return "from " + only(spec.Source)
}

// network describes a network, and the binding of its interface.
func network(n kubevirtv1.Network, interfaces []kubevirtv1.Interface) string {
	parts := []string{only(n.NetworkSource)}

	for i := range interfaces {
		if interfaces[i].Name != n.Name {
			continue
		}

		if interfaces[i].Binding != nil {
			parts = append(parts, "binding "+interfaces[i].Binding.Name)
		} else {
			parts = append(parts, only(interfaces[i].InterfaceBindingMethod))
		}

		if interfaces[i].MacAddress != "" {
			parts = append(parts, "MAC "+interfaces[i].MacAddress)
		}
	}

	return strings.Join(parts, ", ")
}

// only describes an object with one field set, like the unions of the Kubernetes API: by the
// field's name, and by the values that identify its content.
func only(union any) string {
	raw, err := json.Marshal(union)
	if err != nil {
		return ""
	}

	var fields map[string]map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return ""
	}

	var parts []string

	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, name)

		if namespace, ok := fields[name]["namespace"].(string); ok {
			parts = append(parts, namespace)
		}

		for _, key := range []string{"url", "image", "imageStream", "name", "claimName", "networkName", "secretName", "path"} {
			if value, ok := fields[name][key].(string); ok {
				parts = append(parts, value)
			}
		}
	}

	return strings.Join(parts, " ")
}
