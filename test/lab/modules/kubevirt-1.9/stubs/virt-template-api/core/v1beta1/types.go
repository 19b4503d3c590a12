// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is a stub: the fields of VirtualMachineTemplates that KubeVirt uses.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionReady is the type of a condition.
const ConditionReady = "Ready"

// VirtualMachineTemplate is a template for VirtualMachines.
type VirtualMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMachineTemplateSpec   `json:"spec"`
	Status VirtualMachineTemplateStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateSpec is the specification of a template.
type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension `json:"virtualMachine"`
	Parameters     []Parameter           `json:"parameters,omitempty"`
}

// Parameter is a parameter of a template.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// VirtualMachineTemplateStatus is the status of a template.
type VirtualMachineTemplateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a copy.
func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	if t == nil {
		return nil
	}
	out := &VirtualMachineTemplate{TypeMeta: t.TypeMeta, ObjectMeta: *t.ObjectMeta.DeepCopy()}
	out.Spec.VirtualMachine = t.Spec.VirtualMachine.DeepCopy()
	out.Spec.Parameters = append(out.Spec.Parameters, t.Spec.Parameters...)
	for i := range t.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *t.Status.Conditions[i].DeepCopy())
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t.DeepCopy() }
