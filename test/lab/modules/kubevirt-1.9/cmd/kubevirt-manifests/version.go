// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components/validatingadmissionpolicies"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

var (
	newPolicy        = validatingadmissionpolicies.NewHandlerV1ValidatingAdmissionPolicy
	newPolicyBinding = validatingadmissionpolicies.NewHandlerV1ValidatingAdmissionPolicyBinding
)

// newerDefinitions are those that KubeVirt 1.6 does not have.
var newerDefinitions = []definition{
	components.NewVirtualMachineBackupCrd,
	components.NewVirtualMachineBackupTrackerCrd,
	components.NewPluginCrd,
}

// controllerObjects are virt-controller's permissions. Since the gate ExternalNetResourceInjection is on
// by default, it reads no NetworkAttachmentDefinitions.
func controllerObjects() []runtime.Object { return rbac.GetAllController(namespace, false) }
