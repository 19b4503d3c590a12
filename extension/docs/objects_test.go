// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// objects are the names of the objects that manifests, charts and commands create, by their resources.
type objects map[string]map[string]bool

func (o objects) add(resource, name string) {
	if o[resource] == nil {
		o[resource] = map[string]bool{}
	}

	o[resource][name] = true
}

// addManifest adds the objects of a manifest, and those that a Role of the manifest names: the programs with this
// Role create them.
func (o objects) addManifest(t *testing.T, manifest []byte) {
	t.Helper()

	for _, document := range documents(manifest) {
		object := &metav1.PartialObjectMetadata{}
		require.NoError(t, yaml.Unmarshal(document, object))

		plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		o.add(plural.Resource, object.Name)

		if object.Kind != "Role" && object.Kind != "ClusterRole" {
			continue
		}

		role := &rbacv1.ClusterRole{}
		require.NoError(t, yaml.Unmarshal(document, role))

		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, name := range rule.ResourceNames {
					o.add(resource, name)
				}
			}
		}
	}
}

// knownObjects returns the objects of the manifests, of the charts, and of the commands that create objects.
func knownObjects(t *testing.T, calls []call) objects {
	t.Helper()

	known := objects{}
	known.add("namespaces", "garden")                      // Gardener has it.
	known.add("deployments", "machine-controller-manager") // gardenlet deploys it.

	for _, folder := range []string{"../example", "../kubernetes", "../../kubernetes/provider-namespace", "../../kubernetes/provider-cluster"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".yaml") && filepath.Base(path) != "kustomization.yaml" {
				manifest, err := os.ReadFile(path)
				require.NoError(t, err)
				known.addManifest(t, manifest)
			}

			return err
		}))
	}

	for _, chart := range []string{charts.ExtensionPath, charts.AdmissionRuntimePath, charts.AdmissionApplicationPath} {
		manifest, err := renderedWith(chart, nil)
		require.NoError(t, err)
		known.addManifest(t, manifest)
	}

	known.addCommands(t, calls)

	return known
}

// addCommands adds the objects that commands create, the keys of Secrets, and the releases of charts.
func (o objects) addCommands(t *testing.T, calls []call) {
	t.Helper()

	for _, c := range calls {
		if c.args[0] != "kubectl" && c.args[0] != "helm" {
			continue
		}

		parsed, err := parse(c)
		require.NoError(t, err, c)

		switch {
		case parsed.verb == "create" && parsed.isNew():
			o.add(parsed.created())

			for _, value := range append(parsed.flags["from-file"], parsed.flags["from-literal"]...) {
				key, _, _ := strings.Cut(value, "=")
				o.add("keys of Secret "+parsed.rest[len(parsed.rest)-1], key)
			}
		case parsed.verb == "upgrade":
			o.add(parsed.releases(), parsed.rest[0])
		}
	}
}

// placeholder matches a name that the user replaces, such as TECHNICAL-ID.
var placeholder = regexp.MustCompile(`^[a-z-]*[A-Z][A-Z0-9-]*(-z1-HASH)?$`)

// resources returns the names of resources that kubectl accepts, and the plural of each.
func resources() map[string]string {
	names := map[string]string{
		"vm": "virtualmachines", "dv": "datavolumes", "network-attachment-definitions": "network-attachment-definitions", // of CustomResourceDefinitions
	}

	others := runtime.NewScheme()
	utilruntime.Must(errors.Join(operatorv1alpha1.AddToScheme(others), machinev1alpha1.AddToScheme(others), kubevirtv1.AddToScheme(others), cdiv1beta1.AddToScheme(others)))

	for _, scheme := range []*runtime.Scheme{kubernetes.GardenScheme, kubernetes.SeedScheme, others} {
		for kind := range scheme.AllKnownTypes() {
			if kind.Version == runtime.APIVersionInternal {
				continue
			}

			plural, singular := meta.UnsafeGuessKindToResource(kind)
			for _, name := range []string{plural.Resource, singular.Resource, plural.GroupResource().String()} {
				names[name] = plural.Resource
			}
		}
	}

	return names
}
