// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/stretchr/testify/require"
	helmloader "helm.sh/helm/v4/pkg/chart/v2/loader"
	helmchart "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// driverChart is the chart of the driver without Gardener, whose objects are those of the folder kubernetes.
const driverChart = "../../charts/machine-controller-manager-provider-kubevirt"

// machines is the namespace of the release.
const machines = "my-machines"

// renderDriver packages and renders the chart of the driver, and returns its objects by kind, namespace and name.
func renderDriver(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()

	chart, err := helmloader.LoadDir(driverChart)
	require.NoError(t, err)

	file, err := helmchart.Save(chart, t.TempDir())
	require.NoError(t, err)

	archive, err := os.ReadFile(filepath.Clean(file))
	require.NoError(t, err)

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).RenderArchive(archive, "workers", machines, values)
	require.NoError(t, err)

	rendered := map[string]map[string]any{}

	for _, manifest := range release.Manifests {
		object := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest.Content), &object), manifest.Content)

		if len(object) > 0 {
			rendered[keyOf(object)] = object
		}
	}

	return rendered
}

func keyOf(object map[string]any) string {
	u := unstructured.Unstructured{Object: object}

	return fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
}

// shipped returns the objects in folders of kubernetes, with the namespace of the release.
func shipped(t *testing.T, folders ...string) map[string]map[string]any {
	t.Helper()

	objects := map[string]map[string]any{}

	for _, folder := range folders {
		require.NoError(t, fs.WalkDir(kubernetes.Manifests, folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || slices.Contains([]string{"kustomization.yaml", "namespace.yaml"}, entry.Name()) {
				return err
			}

			raw, err := kubernetes.Manifests.ReadFile(path)
			for document := range strings.SplitSeq(strings.ReplaceAll(string(raw), "shoot--lab--demo", machines), "\n---\n") {
				object := map[string]any{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object), path)

				u := unstructured.Unstructured{Object: object}
				if u.GetNamespace() == "" && !strings.HasPrefix(u.GetKind(), "Cluster") && !strings.HasPrefix(u.GetKind(), "Validating") {
					u.SetNamespace(machines)
				}

				objects[keyOf(object)] = object
			}

			return err
		}))
	}

	return objects
}

// TestDriverChart_Standalone requires the chart to have the objects of kubernetes/standalone, with the images of its values, and the labels of
// Helm.
func TestDriverChart_Standalone(t *testing.T) {
	t.Parallel()

	rendered := renderDriver(t, nil)
	want := shipped(t, "base", "control-namespace", "target")
	require.Len(t, rendered, len(want))

	for key, object := range want {
		u := unstructured.Unstructured{Object: rendered[key]}
		require.NotNil(t, u.Object, key)

		all := u.GetLabels()
		require.Equal(t, "workers", all["app.kubernetes.io/instance"], key)

		for _, added := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			delete(all, added)
		}

		u.SetLabels(all)

		if len(all) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "labels")
		}

		setImages(t, object, containersOf(t, u.Object))
		require.Equal(t, object, u.Object, key)
	}
}

// setImages replaces the placeholders in kubernetes/base with the images of the chart.
func setImages(t *testing.T, object map[string]any, rendered []any) {
	t.Helper()

	for i, container := range containersOf(t, object) {
		image := container.(map[string]any)
		require.Contains(t, rendered[i].(map[string]any)["image"], image["image"])
		image["image"] = rendered[i].(map[string]any)["image"]
	}
}

func containersOf(t *testing.T, object map[string]any) []any {
	t.Helper()

	containers, _, err := unstructured.NestedFieldNoCopy(object, "spec", "template", "spec", "containers")
	require.NoError(t, err)

	list, _ := containers.([]any)

	return list
}

// TestDriverChart_Values sets the values that change objects.
func TestDriverChart_Values(t *testing.T) {
	t.Parallel()

	rendered := renderDriver(t, map[string]any{
		"driver":            map[string]any{"args": []any{"--evacuation"}, "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}},
		"target":            map[string]any{"kubeconfigSecret": "target-kubeconfig"},
		"networkPolicy":     map[string]any{"enabled": false},
		"priorityClassName": "system-cluster-critical",
		"monitoring":        map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
	})

	deployment := rendered["Deployment my-machines/machine-controller-manager"]
	containers := containersOf(t, deployment)
	driver := containers[1].(map[string]any)

	for _, container := range containers {
		require.Contains(t, container.(map[string]any)["args"], "--target-kubeconfig=/etc/machine-controller-manager/target/kubeconfig")
	}

	require.Contains(t, driver["args"], "--evacuation")
	require.NotContains(t, containers[0].(map[string]any)["args"], "--evacuation")
	require.Equal(t, map[string]any{"limits": map[string]any{"memory": "1Gi"}}, driver["resources"])

	pod, _, err := unstructured.NestedMap(deployment, "spec", "template", "spec")
	require.NoError(t, err)
	require.Equal(t, "system-cluster-critical", pod["priorityClassName"])
	require.Len(t, pod["volumes"], 1)

	require.NotContains(t, rendered, "NetworkPolicy my-machines/machine-controller-manager")
	require.NotContains(t, rendered, "ClusterRole /machine-controller-manager-target", "kubernetes/target is for the other cluster")

	for key, object := range shipped(t, "monitoring/rules/prometheusrule.yaml", "monitoring/service.yaml", "monitoring/servicemonitor.yaml") {
		require.Equal(t, object["spec"], rendered[key]["spec"], key)

		u := unstructured.Unstructured{Object: rendered[key]}
		require.Equal(t, "prometheus", u.GetLabels()["release"], key)
	}

	require.Contains(t, rendered, "ConfigMap my-machines/machine-controller-manager-provider-kubevirt-dashboard")

	second := renderDriver(t, map[string]any{"target": map[string]any{"sharedRoles": false}})
	require.NotContains(t, second, "ClusterRole /machine-controller-manager-target")
	require.NotContains(t, second, "Role kube-system/machine-controller-manager-bootstrap-tokens")
	require.Contains(t, second, "ClusterRoleBinding /machine-controller-manager-target-my-machines")
	require.Contains(t, second, "RoleBinding kube-system/machine-controller-manager-bootstrap-tokens-my-machines")
	require.Contains(t, second, "Role my-machines/machine-controller-manager")
}
