// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// The folders testdata/v* hold the objects that each release left on provider clusters: per
// MachineClass a file with the class, and the Secrets, the golden image and the VirtualMachine of
// one machine, as the API server stored them. Every later release must work with them. A release
// adds its own folder, named by VERSION, and never changes another one:
//
//	go test ./test/integration/lifecycle -run '^TestStoredObjects$' -update
var update = flag.Bool("update", false, "write the objects that this version stores")

const (
	storedCluster   = "shoot--lab--demo" // of the shipped MachineClasses; names of golden images depend on it
	storedNamespace = "provider-namespace"
	storedMachine   = "worker-z1-5f4d8-abcde"
	storedUID       = types.UID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")
)

// TestStoredObjects lets this version take over the machines of every release, with Machines that
// were restored with other UIDs. This version's own objects must match its own folder, so that the
// next release is tested with the actual objects.
func TestStoredObjects(t *testing.T) {
	t.Parallel()

	version, err := os.ReadFile("../../../VERSION")
	require.NoError(t, err)

	release, _, _ := strings.Cut(strings.TrimSpace(string(version)), "-")

	for _, class := range []string{"minimal", "complete"} {
		file := filepath.Join("testdata", release, class+".yaml")

		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(storeObjects(t, class)), 0o644))

			continue
		}

		t.Run("Stores/"+class, func(t *testing.T) {
			t.Parallel()

			written, err := os.ReadFile(file)
			require.NoError(t, err, "each release has its own folder: run with -update")
			require.Equal(t, normalized(string(written)), normalized(storeObjects(t, class)), "run with -update, unless %s is released", release)
		})
	}

	files, err := filepath.Glob("testdata/v*/*.yaml")
	require.NoError(t, err)

	for _, file := range files {
		t.Run(strings.TrimPrefix(strings.TrimSuffix(file, ".yaml"), "testdata/"), func(t *testing.T) {
			t.Parallel()
			requireTakenOver(t, file)
		})
	}
}

// added matches the IDs that KubeVirt generates for each VirtualMachine, and the times that it stored
// in templates before 1.9.
var added = regexp.MustCompile(`(?m)^ +(?:(?:serial|uuid): [0-9a-f-]{36}|creationTimestamp: null)\n`)

// normalized removes what KubeVirt has added to stored objects.
func normalized(objects string) string { return added.ReplaceAllString(objects, "") }

// removeAddedAnnotations requires what KubeVirt adds to a VirtualMachine, and removes the annotations.
func removeAddedAnnotations(t *testing.T, vm map[string]any) {
	t.Helper()

	firmware, _, err := unstructured.NestedStringMap(vm, "spec", "template", "spec", "domain", "firmware")
	require.NoError(t, err)
	require.ElementsMatch(t, generatedIDs.Get(t), slices.Collect(maps.Keys(firmware)))

	annotations := []string{"spec", "template", "metadata", "annotations"}

	for key, value := range addedAnnotations.Get(t) {
		got, _, err := unstructured.NestedString(vm, append(slices.Clone(annotations), key)...)
		require.NoError(t, err)
		require.Equal(t, value, got, key)
		unstructured.RemoveNestedField(vm, append(slices.Clone(annotations), key)...)
	}

	if left, _, err := unstructured.NestedMap(vm, annotations...); err == nil && len(left) == 0 {
		unstructured.RemoveNestedField(vm, annotations...)
	}
}

// requireTakenOver applies stored objects, and requires that the driver recognizes them as its
// own throughout their life.
func requireTakenOver(t *testing.T, file string) {
	t.Helper()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := applyStoredObjects(t, s, file)
	stored := s.VM(t, m.Name())
	images := s.Images(t)
	require.Len(t, images, 1)

	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://" + m.Name(): m.Name()}, listed)

	created, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, "kubevirt://"+m.Name(), created.ProviderID)
	require.Equal(t, m.Name(), created.NodeName)

	m.Machine.Spec.ProviderID = created.ProviderID
	m.AwaitScheduled(t, d)
	require.Equal(t, stored.UID, s.VM(t, m.Name()).UID, "the stored machine must be kept")
	require.Equal(t, images, s.Images(t), "the machine must not need another golden image")

	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireGone(t, m.Name())
	s.DeleteImages(t, storedCluster)
	s.RequireNothingLeft(t)
}

// storedKinds returns the resources of the objects on the provider cluster.
func storedKinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"Secret":         corev1.SchemeGroupVersion.WithResource("secrets"),
		"DataVolume":     cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes"),
		"VirtualMachine": kubevirtv1.GroupVersion.WithResource("virtualmachines"),
	}
}

// applyStoredObjects creates a file's objects. It returns the Machine with its class and Secret, as
// machine-controller-manager would pass them.
func applyStoredObjects(t *testing.T, s *harness.Shoot, file string) *harness.Machine {
	t.Helper()

	raw, err := os.ReadFile(file)
	require.NoError(t, err)

	client, err := dynamic.NewForConfig(harness.Lab().Provider.Config())
	require.NoError(t, err)

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	m.Machine.Name = storedMachine

	documents := strings.Split(harness.MustReplace(string(raw), storedNamespace, s.ProviderNamespace), "\n---\n")
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), m.Class))

	for _, document := range documents[1:] {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object.Object))

		kind, known := storedKinds()[object.GetKind()]
		require.True(t, known, object.GetKind())

		_, err := client.Resource(kind).Namespace(s.ProviderNamespace).Create(t.Context(), object, strictCreation())
		require.NoError(t, err)
	}

	return m
}

func strictCreation() metav1.CreateOptions {
	return metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
}

// storeObjects creates a machine of a shipped MachineClass, and returns its stored objects once it
// runs, in the format of the files.
func storeObjects(t *testing.T, class string) string {
	t.Helper()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	m.Machine.Name = storedMachine
	m.Machine.UID = storedUID
	m.Machine.Labels = map[string]string{"name": "worker-z1"}
	m.Secret.Data["userData"] = []byte("#cloud-config\nhostname: " + storedMachine + "\n")
	m.Class = shippedMachineClass(t, class)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)
	harness.Eventually(t, m.Name()+" runs", func(ctx context.Context) (bool, error) {
		vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(ctx, m.Name(), metav1.GetOptions{})

		return err == nil && vm.Status.Ready, err
	})

	stored, err := yaml.Marshal(m.Class)
	require.NoError(t, err)

	documents := [][]byte{stored}
	for _, object := range storedObjects(t, s, m) {
		stored, err := yaml.Marshal(object)
		require.NoError(t, err)

		documents = append(documents, stored)
	}

	require.NoError(t, m.Remove(t.Context(), d))

	return harness.MustReplace(string(bytes.Join(documents, []byte("---\n"))), s.ProviderNamespace, storedNamespace)
}

// shippedMachineClass returns the unchanged class of a shipped file.
func shippedMachineClass(t *testing.T, name string) *v1alpha1.MachineClass {
	t.Helper()

	raw, err := manifests.Manifests.ReadFile("machineclass/" + name + ".yaml")
	require.NoError(t, err)

	document, _, _ := bytes.Cut(raw, []byte("\n---\n"))
	class := &v1alpha1.MachineClass{}
	require.NoError(t, yaml.UnmarshalStrict(document, class))

	return class
}

// storedObjects returns the objects that the driver has created for a machine, in order of
// creation, without the fields that an API server sets in every object.
func storedObjects(t *testing.T, s *harness.Shoot, m *harness.Machine) []map[string]any {
	t.Helper()

	client, err := dynamic.NewForConfig(harness.Lab().Provider.Config())
	require.NoError(t, err)

	ofMachine := labels.Set{render.LabelMachine: m.Name()}.String()

	var stored []map[string]any

	for _, which := range []struct{ kind, selector string }{
		{"Secret", ofMachine},
		{"DataVolume", providerspec.LabelGoldenImage + ",!" + render.LabelMachine},
		{"VirtualMachine", ofMachine},
	} {
		list, err := client.Resource(storedKinds()[which.kind]).Namespace(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: which.selector})
		require.NoError(t, err)
		require.NotEmpty(t, list.Items, which.kind)

		for i := range list.Items {
			object := list.Items[i].Object
			unstructured.RemoveNestedField(object, "status")

			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(object, "metadata", field)
			}

			if which.kind == "VirtualMachine" {
				removeAddedAnnotations(t, object)
			}

			stored = append(stored, object)
		}
	}

	return stored
}
