// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// awaitDiscovery waits until the API server's discovery lists every type that the manifests
// define. A type is served a moment before it is listed; components that start in between
// do not find it and exit.
func (p *provider) awaitDiscovery(ctx context.Context) error {
	var objects []unstructured.Unstructured
	for _, file := range []string{p.options.Binaries.KubeVirtManifests, p.options.Binaries.CDIManifests} {
		list, err := readList(file)
		if err != nil {
			return err
		}
		objects = append(objects, list...)
	}
	client, err := discovery.NewDiscoveryClientForConfig(p.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	for i := range objects {
		if objects[i].GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := awaitType(ctx, client, &objects[i]); err != nil {
			return fmt.Errorf("wait for discovery of %s: %w", objects[i].GetName(), err)
		}
	}
	return nil
}

func awaitType(ctx context.Context, client discovery.DiscoveryInterface, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		err := wait.PollUntilContextTimeout(ctx, pollEvery, applyTimeout, true, func(context.Context) (bool, error) {
			list, err := client.ServerResourcesForGroupVersion(group + "/" + name)
			if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) {
				return false, nil
			}
			return err == nil && has(list, plural), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func has(list *metav1.APIResourceList, plural string) bool {
	for i := range list.APIResources {
		if list.APIResources[i].Name == plural {
			return true
		}
	}
	return false
}
