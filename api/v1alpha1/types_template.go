// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachineTemplate is a partial KubeVirt VirtualMachine. It is merged over the VirtualMachine
// that the driver creates from the other fields of the ProviderSpec: objects are merged, lists
// whose entries have names are merged by name, and other lists are replaced. Fields that the driver
// sets itself (names, the labels that identify a machine, volumes, disks, networks, interfaces) are
// refused; the ProviderSpec has fields of its own for them.
type VirtualMachineTemplate struct {
	// Metadata are additional labels and annotations of the VirtualMachine.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// Spec is the spec of the VirtualMachine.
	Spec VirtualMachineTemplateSpec `json:"spec,omitempty"`

	given json.RawMessage
}

// UnmarshalJSON also keeps the JSON: unlike the fields, it distinguishes a field that is set to
// zero, false or an empty value from one that is not set.
func (t *VirtualMachineTemplate) UnmarshalJSON(raw []byte) error {
	type plain VirtualMachineTemplate

	*t = VirtualMachineTemplate{}
	if err := json.Unmarshal(raw, (*plain)(t)); err != nil {
		return err
	}

	t.given = slices.Clone(raw)

	return nil
}

// MarshalJSON returns the JSON from which the template was decoded, or, if it was not decoded, that
// of its fields.
func (t VirtualMachineTemplate) MarshalJSON() ([]byte, error) {
	if t.given != nil {
		return t.given, nil
	}

	type plain VirtualMachineTemplate

	return json.Marshal(plain(t))
}

// Given returns the template as it was given, in JSON. Unlike the fields, it distinguishes a field
// that is set to zero, false or an empty value from one that is not set.
func (t *VirtualMachineTemplate) Given() ([]byte, error) { return t.MarshalJSON() }

// ObjectMeta is the part of an object's metadata that can be set.
type ObjectMeta struct {
	// Labels are merged over the driver's.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are merged over the driver's.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// VirtualMachineTemplateSpec is a partial spec of a KubeVirt VirtualMachine.
type VirtualMachineTemplateSpec struct {
	// RunStrategy determines when KubeVirt restarts the virtual machine. Default: Always; Once with
	// a container disk.
	// +kubebuilder:validation:Enum=Always;RerunOnFailure;Once
	RunStrategy *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy,omitempty"`
	// Running is not supported. Use runStrategy.
	Running *bool `json:"running,omitempty"`
	// Instancetype names a KubeVirt instancetype, which replaces cpu, memory and resources.
	Instancetype *kubevirtv1.InstancetypeMatcher `json:"instancetype,omitempty"`
	// Preference names a KubeVirt preference.
	Preference *kubevirtv1.PreferenceMatcher `json:"preference,omitempty"`
	// Template is the template of the VirtualMachineInstance.
	Template *VirtualMachineInstanceTemplate `json:"template,omitempty"`
	// DataVolumeTemplates is not supported. Use rootVolume and additionalVolumes.
	DataVolumeTemplates []kubevirtv1.DataVolumeTemplateSpec `json:"dataVolumeTemplates,omitempty"`
	// UpdateVolumesStrategy determines how KubeVirt applies changes of volumes. The driver makes
	// none.
	UpdateVolumesStrategy *kubevirtv1.UpdateVolumesStrategy `json:"updateVolumesStrategy,omitempty"`
}

// VirtualMachineInstanceTemplate is a partial KubeVirt VirtualMachineInstance.
type VirtualMachineInstanceTemplate struct {
	// Metadata are additional labels and annotations of the VirtualMachineInstance and its pod.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// Spec is the spec of the VirtualMachineInstance. Fields that the driver sets itself are
	// refused.
	Spec kubevirtv1.VirtualMachineInstanceSpec `json:"spec,omitempty"`
}
