// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is a short name for unstructured content.
type object = map[string]any

// ownObjects returns the objects that an installation of KubeVirt, CDI and a storage driver has in
// addition to their operators' manifests. They replace manifests of the same name.
func (p *provider) ownObjects() ([]unstructured.Unstructured, error) {
	ca, keys := string(p.pki.ca.pem), p.keys
	contents := []object{
		named("v1", "Namespace", "kubevirt"),
		named("v1", "Namespace", "cdi"),
		configMap("kubevirt", "kubevirt-ca", "ca-bundle", ca),
		configMap("cdi", "cdi-uploadserver-signer-bundle", "ca-bundle.crt", string(keys.serverCA)),
		configMap("cdi", "cdi-uploadserver-client-signer-bundle", "ca-bundle.crt", string(keys.clientCA)),
		with(within("cdi", named("v1", "Secret", "cdi-api-signing-key")), "stringData",
			object{"id_rsa": string(keys.private), "id_rsa.pub": string(keys.public)}),
		with(within("kubevirt", named("kubevirt.io/v1", "KubeVirt", "kubevirt")), "spec", object{
			"configuration": object{"developerConfiguration": p.options.developerConfiguration()},
		}),
		cdiResource(),
	}
	for _, class := range p.options.storageClasses() {
		contents = append(contents, class.object(p.options.provisioner()))
	}
	contents = append(contents, with(named("storage.k8s.io/v1", "CSIDriver", p.options.provisioner()), "spec", object{"attachRequired": false}))
	objects := make([]unstructured.Unstructured, 0, len(contents)+2)
	for _, content := range contents {
		objects = append(objects, unstructured.Unstructured{Object: content})
	}
	for namespace, name := range map[string]string{"kubevirt": "virt-api", "cdi": "cdi-api"} {
		service, err := externalService(namespace, name)
		if err != nil {
			return nil, err
		}
		objects = append(objects, service)
	}
	return objects, nil
}

func cdiResource() object {
	o := named("cdi.kubevirt.io/v1beta1", "CDI", "cdi")
	o["metadata"] = object{"name": "cdi", "annotations": object{"cdi.kubevirt.io/configAuthority": ""}}
	return with(o, "spec", object{"config": object{"featureGates": []any{"HonorWaitForFirstConsumer"}}})
}

func named(apiVersion, kind, name string) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}}
}

func within(namespace string, o object) object {
	if metadata, ok := o["metadata"].(object); ok {
		metadata["namespace"] = namespace
	}
	return o
}

func with(o object, field string, value any) object {
	o[field] = value
	return o
}

func configMap(namespace, name, key, value string) object {
	return with(within(namespace, named("v1", "ConfigMap", name)), "data", object{key: value})
}

// markDeployed sets the status that KubeVirt's and CDI's operators report when they are done.
func (p *provider) markDeployed(ctx context.Context) error {
	version := p.options.Binaries.KubeVirtVersion
	condition := func(name string) object {
		return object{"type": name, "status": "True", "reason": "AllComponentsReady", "message": "set by the lab"}
	}
	status, err := json.Marshal(object{"status": object{
		"phase": "Deployed", "operatorVersion": version, "observedKubeVirtVersion": version, "targetKubeVirtVersion": version,
		"defaultArchitecture": "amd64", "observedGeneration": 1,
		"conditions": []any{condition("Available"), condition("Created")},
	}})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	kubeVirt := unstructured.Unstructured{Object: within("kubevirt", named("kubevirt.io/v1", "KubeVirt", "kubevirt"))}
	if err := p.patch(ctx, &kubeVirt, string(status), "status"); err != nil {
		return err
	}
	// The CustomResourceDefinition of CDI has no status subresource.
	cdi := unstructured.Unstructured{Object: named("cdi.kubevirt.io/v1beta1", "CDI", "cdi")}
	return p.patch(ctx, &cdi, `{"status":{"phase":"Deployed"}}`)
}
