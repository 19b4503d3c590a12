// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// manifest contains the objects of a file that these tests check.
type manifest struct {
	classes []*v1alpha1.MachineClass
	secrets []*corev1.Secret
}

// read reads a file strictly: a misspelt field fails the test.
func read(t *testing.T, path string) manifest {
	t.Helper()

	raw, err := kubernetes.Manifests.ReadFile(path)
	require.NoError(t, err)

	var found manifest

	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1)

	for {
		document := json.RawMessage{}

		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found
		}

		require.NoError(t, err)

		var kind metav1.TypeMeta

		require.NoError(t, json.Unmarshal(document, &kind))

		switch kind.Kind {
		case "MachineClass":
			class := &v1alpha1.MachineClass{}
			require.NoError(t, yaml.UnmarshalStrict(document, class))
			found.classes = append(found.classes, class)
		case "Secret":
			secret := &corev1.Secret{}
			require.NoError(t, yaml.UnmarshalStrict(document, secret))
			found.secrets = append(found.secrets, secret)
		}
	}
}

// TestManifests_MachineClassesAreValid validates every shipped MachineClass as the driver does, with default
// flags.
func TestManifests_MachineClassesAreValid(t *testing.T) {
	t.Parallel()

	judged := map[string]bool{}

	err := fs.WalkDir(kubernetes.Manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		for _, class := range read(t, path).classes {
			_, faults := validation.Decode(class.ProviderSpec.Raw, validation.Options{Template: validation.TemplateSafe})
			require.Empty(t, faults, "%s: %s", path, class.Name)
			require.Equal(t, "kubevirt", class.Provider, path)

			judged[class.Name] = true
		}

		return nil
	})
	require.NoError(t, err)

	for _, name := range []string{"minimal", "complete", "production-z1", "example-worker-z1", "example-worker-z2"} {
		require.True(t, judged[name], name)
	}
}

// TestManifests_MachineControllerManagerVersion compares the deployed version with the one that the sidecar
// is built with.
func TestManifests_MachineControllerManagerVersion(t *testing.T) {
	t.Parallel()

	module, err := os.ReadFile("../go.mod")
	require.NoError(t, err)

	version := regexp.MustCompile(`gardener/machine-controller-manager (v\S+)`).FindStringSubmatch(string(module))
	require.NotNil(t, version)

	for path, says := range map[string]string{
		"base/kustomization.yaml":     "gardener/machine-controller-manager\n    newTag: " + version[1] + "\n",
		"control-namespace/rbac.yaml": version[1] + " of machine-controller-manager",
	} {
		raw, err := kubernetes.Manifests.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(raw), says, path)
	}
}

func TestManifests_MinimalMachineClass(t *testing.T) {
	t.Parallel()

	m := read(t, "machineclass/minimal.yaml")
	require.Len(t, m.classes, 1)
	require.Len(t, m.secrets, 1)
	require.Equal(t, m.classes[0].SecretRef.Name, m.secrets[0].Name)

	for _, key := range []string{apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData} {
		require.NotEmpty(t, m.secrets[0].StringData[key], key)
	}

	spec, _ := validation.Decode(m.classes[0].ProviderSpec.Raw, validation.Options{})
	for i, field := range reflect.VisibleFields(reflect.TypeFor[apiv1alpha1.ProviderSpec]()) {
		switch field.Name {
		case "Region", "Zone", "Tags", "Memory", "RootVolume":
		default:
			require.True(t, reflect.ValueOf(spec).Elem().Field(i).IsZero(), "%s is not needed", field.Name)
		}
	}
}

// TestManifests_CompleteMachineClassHasEveryField looks for each field of the ProviderSpec's own types, also in
// comments, since some fields exclude each other.
func TestManifests_CompleteMachineClassHasEveryField(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("machineclass/complete.yaml")
	require.NoError(t, err)

	_, spec, found := strings.Cut(string(raw), "\nproviderSpec:\n")
	require.True(t, found)

	seen := 0

	for name := range ownFields(reflect.TypeFor[apiv1alpha1.ProviderSpec]()) {
		if name == "running" || name == "dataVolumeTemplates" { // They are always refused.
			continue
		}

		require.True(t, regexp.MustCompile(`(?m)(^|[\s{])`+regexp.QuoteMeta(name)+`:`).MatchString(spec), "%s is not shown", name)

		seen++
	}

	require.Greater(t, seen, 40)
}

// ownFields returns the names of the fields of the ProviderSpec's own structs, including nested
// ones.
func ownFields(t reflect.Type) map[string]bool {
	names := map[string]bool{}

	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")

		kind := field.Type
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}

		if name != "" {
			names[name] = true
		}

		if kind.Kind() == reflect.Struct && (name == "" || kind.PkgPath() == reflect.TypeFor[apiv1alpha1.ProviderSpec]().PkgPath()) {
			for inner := range ownFields(kind) {
				names[inner] = true
			}
		}
	}

	return names
}

// TestManifests_CompleteNodeTemplate compares the nodeTemplate, which cluster-autoscaler reads, with
// the resources of the machine.
func TestManifests_CompleteNodeTemplate(t *testing.T) {
	t.Parallel()

	m := read(t, "machineclass/complete.yaml")
	require.Len(t, m.classes, 1)

	class := m.classes[0]
	spec, faults := validation.Decode(class.ProviderSpec.Raw, validation.Options{Template: validation.TemplateSafe})
	require.Empty(t, faults)

	require.Equal(t, int64(spec.CPU.Cores*spec.CPU.Sockets*spec.CPU.Threads), class.NodeTemplate.Capacity.Cpu().Value())
	require.Zero(t, spec.Memory.Guest.Cmp(*class.NodeTemplate.Capacity.Memory()))
	require.Contains(t, class.NodeTemplate.Capacity, corev1.ResourceName("gpu"), "cluster-autoscaler requires it")
	require.Equal(t, 1, class.NodeTemplate.Capacity.StorageEphemeral().Sign(), "pods that request it would not fit")
	require.Equal(t, spec.Region, class.NodeTemplate.Region)
	require.Equal(t, spec.Zone, class.NodeTemplate.Zone)
	require.NotEmpty(t, class.NodeTemplate.InstanceType)
}

// TestManifests_AdmissionPolicySandboxAnnotations compares the annotations that the driver refuses with those
// that the provider cluster's admission policy refuses.
func TestManifests_AdmissionPolicySandboxAnnotations(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("provider-cluster/worker-machines.yaml")
	require.NoError(t, err)

	_, list, found := strings.Cut(string(raw), "variables.template.?metadata.?annotations.orValue({}).all(a, ![")
	require.True(t, found)
	list, _, found = strings.Cut(list, "].exists(prefix, a.startsWith(prefix)))")
	require.True(t, found)

	var prefixes []string
	for _, prefix := range regexp.MustCompile(`'([^']+)'`).FindAllStringSubmatch(list, -1) {
		prefixes = append(prefixes, prefix[1])
	}

	require.Equal(t, validation.SandboxAnnotations, prefixes)
}

// TestManifests_OrphanPeriod compares the flags of the sidecars with that of the driver over gRPC. The
// driver uses it to detect MachineClasses that a machine controller no longer requests.
func TestManifests_OrphanPeriod(t *testing.T) {
	t.Parallel()

	for _, path := range []string{"base/deployment.yaml", "gardener-sidecar/container.yaml", "grpc-driver/deployment.yaml"} {
		raw, err := kubernetes.Manifests.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(raw), "- --machine-safety-orphan-vms-period=30m\n", path)
	}
}

// TestManifests_MemoryLimits requires that the driver's containers have the memory limits of the tests with hostile
// provider clusters.
func TestManifests_MemoryLimits(t *testing.T) {
	t.Parallel()

	name, soft, _ := strings.Cut(hostile.MemoryLimit, "=")

	for _, path := range []string{"base/deployment.yaml", "gardener-sidecar/container.yaml", "grpc-driver/deployment.yaml"} {
		var deployment appsv1.Deployment

		raw, err := kubernetes.Manifests.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(raw, &deployment))

		for _, container := range deployment.Spec.Template.Spec.Containers {
			if container.Name == "machine-controller-manager" {
				continue // Not the driver's container.
			}

			require.Contains(t, container.Env, corev1.EnvVar{Name: name, Value: soft}, path)
			require.EqualValues(t, hostile.ContainerLimit, container.Resources.Limits.Memory().Value(), path)
		}
	}
}
