// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// fragment matches a YAML block.
var fragment = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// recipes are the pages whose YAML blocks are fragments of a ProviderSpec, or whole objects.
var recipes = []string{"../README.md", "images.md", "networks.md", "operations.md", "storage.md"}

// shoot is an example of the extension, whose tests decode it. README.md repeats it.
const shoot = "../extension/example/90-shoot-minimal.yaml"

// unknownKinds are the kinds in the recipes whose types are in no module of the repository.
var unknownKinds = []schema.GroupKind{{Group: "k8s.cni.cncf.io", Kind: "NetworkAttachmentDefinition"}}

// TestFragmentsAreValid replaces parts of the minimal MachineClass with each
// fragment of a ProviderSpec, and decodes and validates the result as the driver
// does. Whole objects are decoded strictly.
func TestFragmentsAreValid(t *testing.T) {
	t.Parallel()

	for _, page := range recipes {
		t.Run(page, func(t *testing.T) {
			t.Parallel()

			text, err := os.ReadFile(page)
			require.NoError(t, err)

			fragments := fragment.FindAllStringSubmatch(string(text), -1)
			require.NotEmpty(t, fragments)

			for _, found := range fragments {
				requireValid(t, found[1])
			}
		})
	}
}

// TestFragmentsAreFound requires that each page with YAML is checked. The page of the
// ProviderSpec, whose YAML is the minimal MachineClass, and the pages of the extension have tests of their own.
func TestFragmentsAreFound(t *testing.T) {
	t.Parallel()

	var with []string

	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)

		name := strings.TrimPrefix(filepath.ToSlash(page), "../docs/")
		if name != "provider-spec.md" && !strings.HasPrefix(name, "../extension/") && fragment.Match(text) {
			with = append(with, name)
		}
	}

	require.ElementsMatch(t, recipes, with)
}

// TestProviderSpec_MinimalClass compares the example of provider-spec.md with the manifest, which is tested.
func TestProviderSpec_MinimalClass(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("provider-spec.md")
	require.NoError(t, err)

	manifest, err := os.ReadFile("../kubernetes/machineclass/minimal.yaml")
	require.NoError(t, err)
	require.Contains(t, string(manifest), fragment.FindStringSubmatch(string(page))[1]+"---\n")
}

// TestFragmentsCanFail shows that the check rejects an
// unknown field, in a fragment and in an object.
func TestFragmentsCanFail(t *testing.T) {
	t.Parallel()

	require.NotEmpty(t, faults(t, "rootVolum: {}"))
	require.NotEmpty(t, faults(t, "networks: [{name: vlan, primary: true}]"))
	require.NotEmpty(t, faults(t, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: x}\nprovisioner: y\nbindingMode: Immediate"))
	require.NotEmpty(t, faults(t, "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: x}"))
	require.Empty(t, faults(t, "networks: [{name: vlan, default: true}]"))
}

func requireValid(t *testing.T, text string) {
	t.Helper()
	require.Empty(t, faults(t, text), text)
}

// faults returns the errors in a YAML block.
func faults(t *testing.T, text string) []string {
	t.Helper()

	var fields map[string]any

	if err := yaml.UnmarshalStrict([]byte(text), &fields); err != nil {
		return []string{err.Error()}
	}

	if _, whole := fields["kind"]; whole {
		return objectFaults(t, text)
	}

	spec := minimalSpec(t)
	maps.Copy(spec, fields)

	raw, err := json.Marshal(spec)
	require.NoError(t, err)

	var found []string

	_, errs := validation.Decode(raw, validation.Options{Template: validation.TemplateSafe})
	for _, err := range errs {
		found = append(found, err.Error())
	}

	return found
}

// objectFaults decodes an object as the API server does with strict field validation.
func objectFaults(t *testing.T, text string) []string {
	t.Helper()

	var object metav1.PartialObjectMetadata

	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	require.NotEmpty(t, object.Name)

	if object.GroupVersionKind().Group == "core.gardener.cloud" {
		return exampleFaults(t, text)
	}

	for _, kind := range unknownKinds {
		if object.GroupVersionKind().GroupKind() == kind {
			return nil
		}
	}

	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	if _, err := runtime.Decode(strict, []byte(text)); err != nil {
		return []string{err.Error()}
	}

	return nil
}

// exampleFaults compares a Shoot with the example.
func exampleFaults(t *testing.T, text string) []string {
	t.Helper()

	example, err := os.ReadFile(shoot)
	require.NoError(t, err)

	if !strings.Contains(string(example), strings.TrimSpace(text)) {
		return []string{"it differs from " + shoot}
	}

	return nil
}

// minimalSpec returns the ProviderSpec of the shipped minimal MachineClass.
func minimalSpec(t *testing.T) map[string]any {
	t.Helper()

	raw, err := os.ReadFile("../kubernetes/machineclass/minimal.yaml")
	require.NoError(t, err)

	var class v1alpha1.MachineClass

	require.NoError(t, yaml.Unmarshal(raw, &class))

	var spec map[string]any

	require.NoError(t, json.Unmarshal(class.ProviderSpec.Raw, &spec))

	return spec
}
