package v1alpha1

import (
	"encoding/json"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachineTemplate is a partial KubeVirt VirtualMachine. It is merged over what the driver and the other fields of the
// ProviderSpec set: objects merge, lists whose entries have a name merge by name, other lists replace. What the driver owns
// (names, the labels that identify a machine, volumes, disks, networks, interfaces) is refused here; it has fields of its own.
type VirtualMachineTemplate struct {
	// Metadata are further labels and annotations of the VirtualMachine.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// Spec is that of the VirtualMachine.
	Spec VirtualMachineTemplateSpec `json:"spec,omitempty"`

	given json.RawMessage
}

// Given returns the template as it was given, in JSON. Other than the fields, it tells what is set to zero, false or nothing from
// what is not set.
func (t *VirtualMachineTemplate) Given() ([]byte, error) {
	if t.given != nil {
		return t.given, nil
	}

	return json.Marshal(t)
}

// ObjectMeta is what may be given of an object's metadata.
type ObjectMeta struct {
	// Labels are merged over the driver's.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are merged over the driver's.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// VirtualMachineTemplateSpec is a partial spec of a KubeVirt VirtualMachine.
type VirtualMachineTemplateSpec struct {
	// RunStrategy says when KubeVirt starts the virtual machine again. Default: Always; Once with a container disk.
	RunStrategy *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy,omitempty"`
	// Running is not supported. Use runStrategy.
	Running *bool `json:"running,omitempty"`
	// Instancetype names a KubeVirt instancetype, in place of cpu, memory and resources.
	Instancetype *kubevirtv1.InstancetypeMatcher `json:"instancetype,omitempty"`
	// Preference names a KubeVirt preference.
	Preference *kubevirtv1.PreferenceMatcher `json:"preference,omitempty"`
	// Template is that of the VirtualMachineInstance.
	Template *VirtualMachineInstanceTemplate `json:"template,omitempty"`
	// DataVolumeTemplates is not supported. Use rootVolume and additionalVolumes.
	DataVolumeTemplates []kubevirtv1.DataVolumeTemplateSpec `json:"dataVolumeTemplates,omitempty"`
	// UpdateVolumesStrategy says how KubeVirt applies changes of volumes. The driver makes none.
	UpdateVolumesStrategy *kubevirtv1.UpdateVolumesStrategy `json:"updateVolumesStrategy,omitempty"`
}

// VirtualMachineInstanceTemplate is a partial KubeVirt VirtualMachineInstance.
type VirtualMachineInstanceTemplate struct {
	// Metadata are further labels and annotations of the VirtualMachineInstance and its pod.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// Spec is that of the VirtualMachineInstance. What the driver owns in it is refused.
	Spec kubevirtv1.VirtualMachineInstanceSpec `json:"spec,omitempty"`
}
