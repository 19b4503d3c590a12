// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass

import (
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// resourceGPU is the resource of GPUs in a nodeTemplate. The Node may use another name.
const resourceGPU corev1.ResourceName = "gpu"

// NodeTemplateErrors returns the errors of a class's nodeTemplate. machine-controller-manager
// creates no machines of a class with errors.
func NodeTemplateErrors(class *v1alpha1.MachineClass) field.ErrorList {
	if class.NodeTemplate == nil {
		return nil
	}

	var (
		errs     field.ErrorList
		template = class.NodeTemplate
		path     = field.NewPath("nodeTemplate")
	)

	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, resourceGPU} {
		if _, given := template.Capacity[name]; !given {
			errs = append(errs, field.Required(path.Child("capacity").Key(string(name)),
				"machine-controller-manager requires cpu, memory and gpu, which may be 0"))
		}
	}

	for _, f := range []struct{ name, value, remedy string }{
		{"instanceType", template.InstanceType, "set the name of the machine type"},
		{"region", template.Region, "set the region of the nodes"},
		{"zone", template.Zone, "set the zone of the nodes"},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), f.remedy))
		}
	}

	if !isKnownArchitecture(class) {
		errs = append(errs, field.NotSupported(path.Child("architecture"), Architecture(class), architectures))
	}

	return errs
}

// NodeTemplateWarnings returns the differences between a class's nodeTemplate, with which
// cluster-autoscaler simulates new nodes, and its providerSpec, from which machines are created.
// The spec may be invalid.
func NodeTemplateWarnings(class *v1alpha1.MachineClass, spec *apiv1alpha1.ProviderSpec) []apivalidation.Warning {
	path := field.NewPath("nodeTemplate")

	if class.NodeTemplate == nil {
		return []apivalidation.Warning{{
			Field:  path.String(),
			Detail: "is missing: cluster-autoscaler cannot scale the worker pool up from zero machines",
		}}
	}

	template := class.NodeTemplate

	warnings := topologyWarning(path, "region", template.Region, spec.Region)
	warnings = append(warnings, topologyWarning(path, "zone", template.Zone, spec.Zone)...)
	warnings = append(warnings, architectureWarning(path.Child("architecture"), template.Architecture, spec)...)

	if byInstancetype(spec) {
		return warnings
	}

	capacity := path.Child("capacity")
	warnings = append(warnings, cpuWarning(capacity, template.Capacity, spec)...)
	warnings = append(warnings, memoryWarning(capacity, template.Capacity, spec)...)
	warnings = append(warnings, gpuWarning(capacity, template.Capacity, spec)...)

	return warnings
}

// byInstancetype reports whether only the provider cluster knows the machine's size.
func byInstancetype(spec *apiv1alpha1.ProviderSpec) bool {
	return spec.VirtualMachineTemplate != nil && spec.VirtualMachineTemplate.Spec.Instancetype != nil
}

// instance returns the template of the VirtualMachineInstance in the virtualMachineTemplate, empty
// if there is none.
func instance(spec *apiv1alpha1.ProviderSpec) apiv1alpha1.VirtualMachineInstanceTemplate {
	template := ptr.Deref(spec.VirtualMachineTemplate, apiv1alpha1.VirtualMachineTemplate{})

	return ptr.Deref(template.Spec.Template, apiv1alpha1.VirtualMachineInstanceTemplate{})
}

func topologyWarning(path *field.Path, name, expected, actual string) []apivalidation.Warning {
	if expected == "" || actual == "" || actual == apiv1alpha1.AnyTopology || expected == actual {
		return nil
	}

	return []apivalidation.Warning{{
		Field: path.Child(name).String(),
		Detail: fmt.Sprintf(
			"is %q, but providerSpec.%s is %q: cluster-autoscaler would scale up the wrong worker pool; make them equal", expected, name, actual),
	}}
}

// architectureWarning covers the one case in which the driver does not take the architecture from
// the nodeTemplate.
func architectureWarning(path *field.Path, expected *string, spec *apiv1alpha1.ProviderSpec) []apivalidation.Warning {
	given := instance(spec)

	actual := given.Spec.Architecture
	if actual == "" || ptr.Deref(expected, "") == actual {
		return nil
	}

	return []apivalidation.Warning{{
		Field: path.String(),
		Detail: fmt.Sprintf(
			"is %q, but virtualMachineTemplate has %q: cluster-autoscaler would expect nodes that differ from those created; make them equal",
			ptr.Deref(expected, ""), actual),
	}}
}

func cpuWarning(path *field.Path, capacity corev1.ResourceList, spec *apiv1alpha1.ProviderSpec) []apivalidation.Warning {
	count, _ := apivalidation.VirtualCPUs(spec)

	return sizeWarning(path, corev1.ResourceCPU, capacity, *resource.NewQuantity(count, resource.DecimalSI), "virtual CPUs")
}

func memoryWarning(path *field.Path, capacity corev1.ResourceList, spec *apiv1alpha1.ProviderSpec) []apivalidation.Warning {
	actual := memory(spec)
	if actual == nil {
		return nil
	}

	return sizeWarning(path, corev1.ResourceMemory, capacity, *actual, "of memory")
}

// memory returns the guest's memory. If the spec does not set it, KubeVirt uses the request, or the
// limit if there is no request.
func memory(spec *apiv1alpha1.ProviderSpec) *resource.Quantity {
	template := instance(spec)

	if m := template.Spec.Domain.Memory; m != nil && m.Guest != nil {
		return m.Guest
	}

	if m := spec.Memory; m != nil && m.Guest != nil {
		return m.Guest
	}

	over := template.Spec.Domain.Resources
	under := spec.Resources
	for _, list := range []corev1.ResourceList{over.Requests, under.Requests, over.Limits, under.Limits} {
		if quantity, given := list[corev1.ResourceMemory]; given {
			return &quantity
		}
	}

	return nil
}

// gpuWarning takes into account that a GPU may be among the hostDevices too.
func gpuWarning(path *field.Path, capacity corev1.ResourceList, spec *apiv1alpha1.ProviderSpec) []apivalidation.Warning {
	template := instance(spec)
	least := int64(len(template.Spec.Domain.Devices.GPUs))
	most := least + int64(len(template.Spec.Domain.Devices.HostDevices))

	if expected, given := capacity[resourceGPU]; given && expected.Value() > least && expected.Value() <= most {
		return nil
	}

	return sizeWarning(path, resourceGPU, capacity, *resource.NewQuantity(least, resource.DecimalSI), "GPUs")
}

func sizeWarning(
	path *field.Path, name corev1.ResourceName, capacity corev1.ResourceList, actual resource.Quantity, unit string,
) []apivalidation.Warning {
	expected, given := capacity[name]
	if !given || expected.Cmp(actual) == 0 {
		return nil
	}

	return []apivalidation.Warning{{
		Field: path.Key(string(name)).String(),
		Detail: fmt.Sprintf(
			"is %s, but the machine has %s %s: cluster-autoscaler would expect nodes that differ from those created; make them equal",
			expected.String(), actual.String(), unit),
	}}
}
