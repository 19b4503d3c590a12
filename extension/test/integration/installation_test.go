// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestInstallation requires API servers to accept the objects of all charts and the registration. The
// extension itself runs as its chart installed it: package seed.
func TestInstallation(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct{ chart, values string }{
		"extension":                          {charts.ExtensionPath, ""},
		"extension with other values":        {charts.ExtensionPath, "extension"},
		"extension in a self-hosted shoot":   {charts.ExtensionPath, "extension-bootstrap"},
		"admission":                          {charts.AdmissionRuntimePath, ""},
		"admission in the garden cluster":    {charts.AdmissionRuntimePath, "admission-runtime"},
		"admission with gardener-operator":   {charts.AdmissionRuntimePath, "admission-runtime-operator"},
		"permissions of the admission":       {charts.AdmissionApplicationPath, ""},
		"permissions with gardener-operator": {charts.AdmissionApplicationPath, "admission-application"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			// In another namespace: a Service keeps the ports of other field managers.
			objects := render(t, tc.chart, tc.values, metav1.NamespaceDefault)
			require.NotEmpty(t, objects)

			for _, object := range objects {
				requireAccepted(t, object)
			}
		})
	}
}

// TestRegistration requires the API server to accept the registration for gardener-operator.
func TestRegistration(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile("../../example/extension.yaml")
	require.NoError(t, err)

	for _, object := range decode(t, content) {
		require.Equal(t, operatorv1alpha1.SchemeGroupVersion.WithKind("Extension"), object.GroupVersionKind())
		requireAccepted(t, object)
	}
}

// TestRestrictedPods requires the API server to accept the pods of both Deployments under the strictest
// Pod Security Standard, which the namespace of the extension enforces.
func TestRestrictedPods(t *testing.T) {
	t.Parallel()

	for _, chart := range []string{charts.ExtensionPath, charts.AdmissionRuntimePath} {
		pod := podOf(t, chart)
		require.NoError(t, theSeed.Client.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))

		pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		require.ErrorContains(t, theSeed.Client.Create(t.Context(), pod, client.DryRunAll), "PodSecurity", "the namespace enforces the standard")
	}
}

// TestRestrictedPodsHaveTokens requires the API server to mount a token into the pods of both Deployments: a
// runtime cluster may have no gardener-resource-manager that would do it. The ServiceAccounts disable it.
func TestRestrictedPodsHaveTokens(t *testing.T) {
	t.Parallel()

	for _, chart := range []string{charts.ExtensionPath, charts.AdmissionRuntimePath} {
		pod := podOf(t, chart)
		created := pod.DeepCopy()
		require.NoError(t, theSeed.Client.Create(t.Context(), created, client.DryRunAll))
		require.Equal(t, 1, tokensOf(created), chart)

		pod.Spec.AutomountServiceAccountToken = nil
		require.NoError(t, theSeed.Client.Create(t.Context(), pod, client.DryRunAll))
		require.Zero(t, tokensOf(pod), chart)
	}
}

// podOf returns a pod of a chart's Deployment in the namespace of the extension, with the ServiceAccount
// that exists there.
func podOf(t *testing.T, chart string) *corev1.Pod {
	t.Helper()

	for class, value := range map[string]int32{"gardener-system-900": 999998900, "gardener-garden-system-400": 999999400} {
		require.NoError(t, client.IgnoreAlreadyExists(theSeed.Client.Create(t.Context(), &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Value:      value,
		})))
	}

	deployment := &appsv1.Deployment{}

	for _, object := range render(t, chart, "", seed.ExtensionNamespace) {
		if object.GetKind() == "Deployment" {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment))
		}
	}

	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Namespace = seed.ExtensionNamespace
	pod.Name = "restricted"
	pod.Spec.ServiceAccountName = extensionAccount

	return pod
}

// tokensOf returns the number of mounts where client-go reads the token of a pod.
func tokensOf(pod *corev1.Pod) (tokens int) {
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if mount.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" {
			tokens++
		}
	}

	return tokens
}

// render renders a chart with values from package charts.
func render(t *testing.T, chart, values, namespace string) []*unstructured.Unstructured {
	t.Helper()

	content := map[string]any{}

	if values != "" {
		raw, err := os.ReadFile("../../charts/testdata/" + values + ".yaml")
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(raw, &content))
	}

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v" + theSeed.KubernetesVersion()}).
		RenderEmbeddedFS(charts.Installation, chart, "provider-kubevirt", namespace, content)
	require.NoError(t, err)

	return decode(t, release.Manifest())
}

func decode(t *testing.T, content []byte) (objects []*unstructured.Unstructured) {
	t.Helper()

	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}

		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}

		require.NoError(t, err)

		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// requireAccepted requires the API server to accept an object without unknown fields. It may exist.
func requireAccepted(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()

	raw, err := object.MarshalJSON()
	require.NoError(t, err)

	err = theSeed.Client.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, raw),
		client.DryRunAll, client.ForceOwnership, client.FieldOwner("test"), client.FieldValidation(metav1.FieldValidationStrict))
	require.NoError(t, err, "%s %s", object.GetKind(), object.GetName())
}
