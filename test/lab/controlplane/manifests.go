// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// readList returns the objects of a JSON list, without the fields that only a server may set.
func readList(file string) ([]unstructured.Unstructured, error) {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode manifests %s: %w", file, err)
	}
	objects := make([]unstructured.Unstructured, 0, len(list.Items))
	for _, item := range list.Items {
		delete(item, "status")
		objects = append(objects, unstructured.Unstructured{Object: item})
	}
	return objects, nil
}

// readFolder returns the objects of a folder of YAML files with one object each.
func readFolder(folder string) ([]unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find manifests in %s: none, %w", folder, err)
	}
	var objects []unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		o, err := decode(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		delete(o.Object, "status")
		objects = append(objects, o)
	}
	return objects, nil
}

// decode returns the object of a YAML document.
func decode(text string) (unstructured.Unstructured, error) {
	o := unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		return o, fmt.Errorf("decode manifest: %w", err)
	}
	return o, nil
}

// endpoint is the actual address of a component that the API server calls.
type endpoint struct {
	port int
	ca   []byte
}

// isRegistration reports whether an object makes the API server call a component. Such objects are
// applied when the component listens.
func isRegistration(o unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService":
		return true
	}
	return false
}

// point redirects a registration from its Service to the endpoint, since there is no kube-proxy.
// Webhooks get a plain URL. APIServices do not support URLs and get only the port (their Service is
// an ExternalName, see externalService).
func point(o unstructured.Unstructured, e endpoint) error {
	ca := base64.StdEncoding.EncodeToString(e.ca)
	if o.GetKind() == "APIService" {
		spec, _, err := unstructured.NestedMap(o.Object, "spec")
		if err != nil {
			return fmt.Errorf("read spec: %w", err)
		}
		spec["caBundle"] = ca
		if err := unstructured.SetNestedMap(o.Object, spec, "spec"); err != nil {
			return fmt.Errorf("set spec: %w", err)
		}
		return unstructured.SetNestedField(o.Object, int64(e.port), "spec", "service", "port")
	}
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("read webhooks of %s: %w", o.GetName(), err)
	}
	for _, w := range webhooks {
		webhook, ok := w.(map[string]any)
		if !ok {
			return fmt.Errorf("read webhooks of %s: one is a %T", o.GetName(), w)
		}
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return fmt.Errorf("read path of %s: %w", o.GetName(), err)
		}
		webhook["clientConfig"] = map[string]any{"url": "https://" + address(e.port) + path, "caBundle": ca}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

// externalService returns the Service of an aggregated API. A ClusterIP would need endpoints, which
// may not be loopback addresses.
func externalService(namespace, name string) (unstructured.Unstructured, error) {
	return decode(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, `+
		`spec: {type: ExternalName, externalName: %s}}`, namespace, name, loopback))
}
