// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

// kubectlFault checks the verb, the resources and the names of objects.
func (o objects) kubectlFault(c command) error {
	switch c.verb {
	case "apply", "config":
		return nil
	case "create":
		return o.createFault(c)
	case "rollout": // It has a verb of its own.
		c.rest = c.rest[1:]
	case "get", "describe", "delete", "edit", "patch", "annotate", "logs":
	default:
		return fmt.Errorf("verb %s", c.verb)
	}

	if len(c.rest) == 0 {
		return nil // The objects are in files.
	}

	return errors.Join(o.referencesFault(c), patchFault(c))
}

// referencesFault checks the resources and the names of objects to which a command refers.
func (o objects) referencesFault(c command) error {
	types := c.rest[0]
	names := c.rest[1:]
	if kind, name, found := strings.Cut(types, "/"); found {
		types = kind
		names = []string{name}
	}

	for _, name := range strings.Split(types, ",") {
		resource, found := resources()[name]
		if !found {
			return fmt.Errorf("resource %s", name)
		}

		for _, name := range names {
			if strings.Contains(name, "=") {
				continue // an annotation
			}

			if err := o.nameFault(resource, name); err != nil {
				return err
			}
		}
	}

	return nil
}

func (o objects) nameFault(resource, name string) error {
	if !o[resource][name] && !placeholder.MatchString(name) {
		return fmt.Errorf("%s %s", resource, name)
	}

	return nil
}

// createFault checks the account of a token, and the object to which the token is bound.
func (o objects) createFault(c command) error {
	if c.isNew() {
		return o.nameFault(c.created())
	}

	if len(c.rest) < 2 {
		return errors.New("no name")
	}

	bound := c.value("bound-object-name")
	if bound == "" {
		return o.nameFault("serviceaccounts", c.rest[1])
	}

	return errors.Join(o.nameFault("serviceaccounts", c.rest[1]), o.nameFault(resources()[strings.ToLower(c.value("bound-object-kind"))], bound))
}

// patchFault requires a patch to contain only fields of its kind.
func patchFault(c command) error {
	if c.verb != "patch" {
		return nil
	}

	kinds := map[string]any{"shoots": &gardencorev1beta1.Shoot{}, "persistentvolumes": &corev1.PersistentVolume{}}

	kind, found := kinds[resources()[c.rest[0]]]
	if !found {
		return fmt.Errorf("patch of %s", c.rest[0])
	}

	return yaml.UnmarshalStrict([]byte(c.value("patch")), kind)
}

// filesFault checks manifests and folders.
func (o objects) filesFault(c command) error {
	for _, file := range append(c.flags["f"], c.flags["filename"]...) {
		if file == "-" {
			return manifestFault(c.input)
		}

		if !filepath.IsAbs(file) {
			file = filepath.Join(c.folder, file)
		}

		if _, err := os.Stat(file); err != nil {
			return err
		}
	}

	for _, folder := range c.flags["k"] {
		if _, err := os.Stat(filepath.Join(c.folder, folder, "kustomization.yaml")); err != nil {
			return err
		}
	}

	return nil
}

// manifestFault decodes objects of the garden and Secrets strictly.
func manifestFault(manifest []byte) error {
	decoder := serializer.NewCodecFactory(kubernetes.GardenScheme, serializer.EnableStrict).UniversalDeserializer()

	found := documents(manifest)
	if len(found) == 0 {
		return errors.New("no object")
	}

	for _, document := range found {
		if _, _, err := decoder.Decode(document, nil, nil); err != nil {
			return err
		}
	}

	return nil
}

// selectors are the labels in the selectors of the pages, and the files that set them.
func selectors() map[string]string {
	return map[string]string{
		"mcm.gardener.cloud/cluster":                          "../../api/v1alpha1/types.go",
		"kubevirt.provider.extensions.gardener.cloud/cluster": "../pkg/kubevirt/kubevirt.go",
		"app.kubernetes.io/name":                              "../charts/gardener-extension-provider-kubevirt/templates/_helpers.tpl",
		"manager-identity":                                    "",
		"provider.extensions.gardener.cloud/kubevirt":         "",
	}
}

func selectorFault(selector string) error {
	if selector == "" {
		return nil
	}

	label, value, _ := strings.Cut(selector, "=")

	file, known := selectors()[label]
	if !known {
		return fmt.Errorf("label %s", label)
	}

	// Gardener labels the Secrets of the admission's webhook server, and Shoots by their type.
	if file == "" {
		return errorUnless(value == "gardener-extension-admission-kubevirt-webhook" || value == "true", value)
	}

	source, err := os.ReadFile(file)

	return errors.Join(err, errorUnless(strings.Contains(string(source), label), label))
}

func errorUnless(ok bool, text string) error {
	if ok {
		return nil
	}

	return errors.New(text)
}
