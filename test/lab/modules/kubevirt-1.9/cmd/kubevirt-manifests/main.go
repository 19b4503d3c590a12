// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt-manifests prints the objects KubeVirt's operator would create, as one JSON list.
//
// The lab's build runs it once and stores the output; the lab's control plane adapts it (addresses,
// certificates) and applies it. It prints only the objects returned by KubeVirt's own packages, and
// knows nothing of the lab. All versions of KubeVirt have this file in common; version.go is where they differ.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

const namespace = "kubevirt"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kubevirt-manifests:", err)
		os.Exit(1)
	}
}

func run() error {
	items, err := definitions()
	if err != nil {
		return err
	}
	for _, list := range [][]runtime.Object{
		rbac.GetAllCluster(), rbac.GetAllApiServer(namespace), controllerObjects(), rbac.GetAllHandler(namespace),
	} {
		for _, o := range list {
			items = append(items, o)
		}
	}
	for _, m := range components.NewCAConfigMaps(namespace) {
		items = append(items, m)
	}
	for _, s := range components.NewVirtAPIAPIServices(namespace) {
		items = append(items, s)
	}
	items = append(items, components.NewKubeVirtPriorityClassCR(),
		components.NewVirtAPIMutatingWebhookConfiguration(namespace),
		components.NewVirtAPIValidatingWebhookConfiguration(namespace),
		policy(), policyBinding())
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	return nil
}

// admissionVersion replaces the version in the policies' type metadata, which
// KubeVirt sets to a bare "v1".
const admissionVersion = "admissionregistration.k8s.io/v1"

func policy() any {
	p := newPolicy("system:serviceaccount:" + namespace + ":kubevirt-handler")
	p.APIVersion = admissionVersion
	return p
}

func policyBinding() any {
	b := newPolicyBinding()
	b.APIVersion = admissionVersion
	return b
}

// definition builds a CustomResourceDefinition.
type definition = func() (*extv1.CustomResourceDefinition, error)

func definitions() ([]any, error) {
	var items []any
	for _, build := range append([]definition{
		components.NewVirtualMachineInstanceCrd, components.NewVirtualMachineCrd, components.NewPresetCrd,
		components.NewReplicaSetCrd, components.NewVirtualMachineInstanceMigrationCrd, components.NewKubeVirtCrd,
		components.NewVirtualMachinePoolCrd, components.NewVirtualMachineSnapshotCrd,
		components.NewVirtualMachineSnapshotContentCrd, components.NewVirtualMachineRestoreCrd,
		components.NewVirtualMachineExportCrd, components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachineClusterInstancetypeCrd, components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineClusterPreferenceCrd, components.NewMigrationPolicyCrd, components.NewVirtualMachineCloneCrd,
	}, newerDefinitions...) {
		definition, err := build()
		if err != nil {
			return nil, fmt.Errorf("build CRD: %w", err)
		}
		items = append(items, definition)
	}
	return items, nil
}
