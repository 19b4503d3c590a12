// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gardener/gardener/pkg/chartrenderer"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// releases is the key of the releases of a cluster and a namespace in objects.
func (c command) releases() string {
	return "releases of " + c.value("kubeconfig") + " in " + c.value("namespace")
}

// helmFault checks the chart, that each value changes its objects, and that a release is uninstalled where it is
// installed.
func (o objects) helmFault(c command) error {
	switch {
	case c.verb == "upgrade" && len(c.rest) > 1:
		return o.upgradeFault(c)
	case c.verb == "uninstall" && len(c.rest) > 0:
		return o.nameFault(c.releases(), c.rest[0])
	case c.verb == "list":
		return nil
	default:
		return fmt.Errorf("verb %s", c.verb)
	}
}

func (o objects) upgradeFault(c command) error {
	const folder = "extension/charts/"

	chart, found := strings.CutPrefix(c.rest[1], folder)
	if !found {
		return fmt.Errorf("chart %s", c.rest[1])
	}

	values := c.flags["set"]

	manifest, err := renderedWith(chart, values)
	if err != nil {
		return err
	}

	for i, value := range values {
		other, err := renderedWith(chart, slices.Concat(values[:i], values[i+1:]))
		if err == nil && bytes.Equal(manifest, other) {
			return fmt.Errorf("value %s has no effect", value)
		}
	}

	return o.mountedFault(manifest)
}

// renderedWith renders a chart with values of --set.
func renderedWith(chart string, set []string) ([]byte, error) {
	values := map[string]any{}

	for _, assignment := range set {
		path, text, found := strings.Cut(assignment, "=")
		if !found {
			return nil, fmt.Errorf("--set %s", assignment)
		}

		var value any = text
		if enabled, err := strconv.ParseBool(text); err == nil {
			value = enabled
		}

		if err := unstructured.SetNestedField(values, value, strings.Split(path, ".")...); err != nil {
			return nil, err
		}
	}

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.2"}).RenderEmbeddedFS(charts.Installation, chart, "admission", "garden", values)
	if err != nil {
		return nil, err
	}

	if len(release.Manifests) == 0 {
		return nil, errors.New("the chart has no objects")
	}

	return release.Manifest(), nil
}

// mountedFault requires the Secrets that Deployments mount to be created by the commands, with their keys.
func (o objects) mountedFault(manifest []byte) error {
	for _, document := range documents(manifest) {
		deployment := &appsv1.Deployment{}
		if err := yaml.Unmarshal(document, deployment); err != nil || deployment.Kind != "Deployment" {
			continue // It has no volumes.
		}

		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}

			for _, source := range volume.Projected.Sources {
				if source.Secret == nil {
					continue
				}

				for _, item := range source.Secret.Items {
					if !o["keys of Secret "+source.Secret.Name][item.Key] {
						return fmt.Errorf("key %s of Secret %s", item.Key, source.Secret.Name)
					}
				}
			}
		}
	}

	return nil
}
