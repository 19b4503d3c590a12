// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

var (
	newPolicy        = components.NewHandlerV1ValidatingAdmissionPolicy
	newPolicyBinding = components.NewHandlerV1ValidatingAdmissionPolicyBinding
)

// newerDefinitions are those that KubeVirt 1.6 does not have.
var newerDefinitions []definition

// controllerObjects are virt-controller's permissions.
func controllerObjects() []runtime.Object { return rbac.GetAllController(namespace) }
