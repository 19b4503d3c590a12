// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
)

const namespace = "extension-provider-kubevirt"

// render renders a chart with the values of a file in testdata, and decodes the objects strictly.
func render(t *testing.T, chart, values string) map[string]client.Object {
	t.Helper()

	content := map[string]any{}

	if values != "" {
		raw, err := os.ReadFile("testdata/" + values + ".yaml")
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(raw, &content))
	}

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).
		RenderEmbeddedFS(charts.Installation, chart, "provider-kubevirt", namespace, content)
	require.NoError(t, err)

	decoder := serializer.NewCodecFactory(kubernetes.SeedScheme, serializer.EnableStrict).UniversalDeserializer()
	objects := map[string]client.Object{}

	for _, manifest := range release.Manifests {
		decoded, kind, err := decoder.Decode([]byte(manifest.Content), nil, nil)
		require.NoError(t, err, manifest.Content)

		object, ok := decoded.(client.Object)
		require.True(t, ok)

		objects[kind.Kind+" "+object.GetName()] = object
	}

	return objects
}

// objects are the objects of each chart with default values.
var objects = map[string][]string{
	charts.ExtensionPath: {
		"ClusterFilter cloud-controller-manager--kubevirt-cloud-controller-manager",
		"ClusterFilter csi-driver-controller--kubevirt-csi",
		"ClusterFilter csi-snapshot-controller--kubevirt-csi",
		"ClusterRole extensions.gardener.cloud:provider-kubevirt:gardener-extension-provider-kubevirt",
		"ClusterRoleBinding extensions.gardener.cloud:provider-kubevirt:gardener-extension-provider-kubevirt",
		"ConfigMap gardener-extension-provider-kubevirt-dashboard",
		"Deployment gardener-extension-provider-kubevirt",
		"PodDisruptionBudget gardener-extension-provider-kubevirt",
		"PrometheusRule seed-gardener-extension-provider-kubevirt",
		"Role gardener-extension-provider-kubevirt",
		"RoleBinding gardener-extension-provider-kubevirt",
		"Service gardener-extension-provider-kubevirt",
		"ServiceAccount gardener-extension-provider-kubevirt",
		"VerticalPodAutoscaler gardener-extension-provider-kubevirt-vpa",
	},
	charts.AdmissionRuntimePath: {
		"Deployment gardener-extension-admission-kubevirt",
		"PodDisruptionBudget gardener-extension-admission-kubevirt",
		"PrometheusRule garden-gardener-extension-admission-kubevirt",
		"Role gardener-extension-admission-kubevirt",
		"RoleBinding gardener-extension-admission-kubevirt",
		"Service gardener-extension-admission-kubevirt",
		"ServiceAccount gardener-extension-admission-kubevirt",
		"ServiceMonitor garden-gardener-extension-admission-kubevirt",
		"VerticalPodAutoscaler gardener-extension-admission-kubevirt-vpa",
	},
	charts.AdmissionApplicationPath: {
		"ClusterRole extensions.gardener.cloud:provider-kubevirt:gardener-extension-admission-kubevirt",
		"ClusterRoleBinding extensions.gardener.cloud:provider-kubevirt:gardener-extension-admission-kubevirt",
		"ServiceAccount gardener-extension-admission-kubevirt",
	},
}

// TestInstallation_Objects requires each chart to have exactly these objects, without unknown fields.
func TestInstallation_Objects(t *testing.T) {
	t.Parallel()

	for chart, names := range objects {
		rendered := render(t, chart, "")

		found := []string{}
		for name := range rendered {
			found = append(found, name)
		}

		require.ElementsMatch(t, names, found, chart)
	}
}

// allowedServers is the argument for a value of testdata.
const allowedServers = "--workload-identity-allowed-servers=https://a.example.com,https://*.b.example.com:6443"

// TestInstallation_OtherValues requires the values of testdata to change the objects.
func TestInstallation_OtherValues(t *testing.T) {
	t.Parallel()

	extension := render(t, charts.ExtensionPath, "extension")
	require.Contains(t, extension, "ConfigMap gardener-extension-provider-kubevirt-imagevector-overwrite")
	require.NotContains(t, extension, "PrometheusRule seed-gardener-extension-provider-kubevirt", "without scraping, an alert would fire for ever")
	require.NotContains(t, extension, "ConfigMap gardener-extension-provider-kubevirt-dashboard")
	require.Len(t, extension, len(objects[charts.ExtensionPath])-1)

	deployment := deploymentIn(t, extension)
	container := deployment.Spec.Template.Spec.Containers[0]
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	require.Contains(t, container.Image, "registry.example.com/gardener-extension-provider-kubevirt@sha256:")
	require.Contains(t, container.Env, corev1.EnvVar{Name: imagevector.OwnImageEnv, Value: container.Image}, "for the loopback proxy")
	require.Contains(t, container.Args, "--disable-controllers=healthcheck,heartbeat")
	require.Contains(t, container.Args, "--self-hosted-shoot-cluster=true")
	require.Contains(t, container.Args, allowedServers)
	require.NotContains(t, deployment.Spec.Template.Annotations, "prometheus.io/scrape")
	require.Contains(t, deployment.Spec.Template.Annotations, "checksum/configmap-imagevector-overwrite")

	admission := deploymentIn(t, render(t, charts.AdmissionRuntimePath, "admission-runtime")).Spec.Template.Spec
	require.Empty(t, admission.PriorityClassName)
	require.Contains(t, admission.Containers[0].Args, "--allow-internal-provider-servers=true")
	require.Contains(t, admission.Containers[0].Args, allowedServers)

	binding, ok := render(t, charts.AdmissionApplicationPath, "admission-application")["ClusterRoleBinding "+clusterName].(*rbacv1.ClusterRoleBinding)
	require.True(t, ok)
	require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "extension-admission-provider-kubevirt"}}, binding.Subjects)
}

const clusterName = "extensions.gardener.cloud:provider-kubevirt:gardener-extension-admission-kubevirt"

func deploymentIn(t *testing.T, objects map[string]client.Object) *appsv1.Deployment {
	t.Helper()

	for _, object := range objects {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			return deployment
		}
	}

	require.Fail(t, "no Deployment")

	return nil
}

// TestInstallation_Ports requires the flags, the Services, the annotation for Prometheus, and those from which Gardener
// derives NetworkPolicies to have the ports of the containers.
func TestInstallation_Ports(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		chart, values           string
		webhook, metric, health int32
	}{
		{charts.ExtensionPath, "", 10250, 8080, 8081},
		{charts.ExtensionPath, "extension", 10251, 9080, 9081},
		{charts.ExtensionPath, "extension-bootstrap", 30002, 30001, 30003},
		{charts.AdmissionRuntimePath, "", 10250, 8080, 8081},
		{charts.AdmissionRuntimePath, "admission-runtime", 10251, 9080, 9081},
	} {
		rendered := render(t, tc.chart, tc.values)
		pod := deploymentIn(t, rendered).Spec.Template
		container := pod.Spec.Containers[0]

		ports := map[string]int32{}
		for _, port := range container.Ports {
			ports[port.Name] = port.ContainerPort
		}

		require.Equal(t, map[string]int32{"webhook-server": tc.webhook, "metrics": tc.metric, "health": tc.health}, ports, tc.values)
		require.Subset(t, container.Args, []string{
			fmt.Sprintf("--webhook-config-server-port=%d", tc.webhook),
			fmt.Sprintf("--metrics-bind-address=:%d", tc.metric),
			fmt.Sprintf("--health-bind-address=:%d", tc.health),
		})

		if scraped, ok := pod.Annotations["prometheus.io/port"]; ok {
			require.Equal(t, strconv.Itoa(int(tc.metric)), scraped)
		}

		service, ok := rendered["Service "+container.Name].(*corev1.Service)
		require.True(t, ok)
		require.Equal(t, tc.webhook, service.Spec.Ports[0].TargetPort.IntVal)
		require.Equal(t, sets.New(tc.webhook, tc.metric), allowedPorts(t, service))
	}
}

// allowedPorts returns the ports to which Gardener's NetworkPolicies for a Service allow requests.
func allowedPorts(t *testing.T, service *corev1.Service) sets.Set[int32] {
	t.Helper()

	allowed := sets.New[int32]()

	for name, value := range service.Annotations {
		if !strings.HasSuffix(name, "-ports") {
			continue
		}

		var ports []networkingv1.NetworkPolicyPort
		require.NoError(t, json.Unmarshal([]byte(value), &ports), name)

		for _, port := range ports {
			allowed.Insert(port.Port.IntVal)
		}
	}

	return allowed
}

// TestInstallation_ServiceCallers requires Gardener to allow the API servers of shoots to call the webhooks, and the
// Prometheus of the seed to scrape the metrics.
func TestInstallation_ServiceCallers(t *testing.T) {
	t.Parallel()

	service, ok := render(t, charts.ExtensionPath, "")["Service gardener-extension-provider-kubevirt"].(*corev1.Service)
	require.True(t, ok)
	require.Contains(t, service.Annotations, "networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports")
	require.Contains(t, service.Annotations, "networking.resources.gardener.cloud/from-all-seed-scrape-targets-allowed-ports")

	var selectors []metav1.LabelSelector
	require.NoError(t, json.Unmarshal([]byte(service.Annotations[resourcesv1alpha1.NetworkingNamespaceSelectors]), &selectors))

	for name, namespace := range map[string]labels.Set{
		"shoot":  {corev1.LabelMetadataName: "shoot--garden-dev--johndoe", v1beta1constants.GardenRole: v1beta1constants.GardenRoleShoot},
		"garden": {corev1.LabelMetadataName: v1beta1constants.GardenNamespace, v1beta1constants.GardenRole: v1beta1constants.GardenNamespace},
	} {
		require.True(t, slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool {
			selector, err := metav1.LabelSelectorAsSelector(&s)

			return err == nil && selector.Matches(namespace)
		}), name)
	}
}

// TestInstallation_PrometheusJobs requires the alerts and the dashboard to select the job that
// Prometheus assigns to the pods: from the annotation in a seed, from the name of the Service for the
// admission.
func TestInstallation_PrometheusJobs(t *testing.T) {
	t.Parallel()

	extension := render(t, charts.ExtensionPath, "")
	admission := render(t, charts.AdmissionRuntimePath, "")

	service, ok := admission["Service gardener-extension-admission-kubevirt"].(*corev1.Service)
	require.True(t, ok)

	monitor, ok := admission["ServiceMonitor garden-gardener-extension-admission-kubevirt"].(*monitoringv1.ServiceMonitor)
	require.True(t, ok)
	require.Equal(t, service.Labels, monitor.Spec.Selector.MatchLabels)
	require.Equal(t, service.Spec.Ports[1].Name, monitor.Spec.Endpoints[0].Port)

	for file, job := range map[string]string{
		charts.ExtensionPath + "/monitoring/rules.yaml":        deploymentIn(t, extension).Spec.Template.Annotations["prometheus.io/name"],
		charts.ExtensionPath + "/monitoring/dashboard.json":    deploymentIn(t, extension).Spec.Template.Annotations["prometheus.io/name"],
		charts.AdmissionRuntimePath + "/monitoring/rules.yaml": service.Name,
	} {
		content, err := charts.Installation.ReadFile(file)
		require.NoError(t, err)

		jobs := regexp.MustCompile(`job=\\?"([^"\\]*)`).FindAllStringSubmatch(string(content), -1)
		require.NotEmpty(t, jobs, file)

		for _, found := range jobs {
			require.Equal(t, job, found[1], file)
		}
	}
}

// TestInstallation_NoWildcards requires the permissions to name their resources and verbs.
func TestInstallation_NoWildcards(t *testing.T) {
	t.Parallel()

	roles := 0

	for chart := range objects {
		for name, object := range render(t, chart, "") {
			var rules []rbacv1.PolicyRule

			switch role := object.(type) {
			case *rbacv1.ClusterRole:
				rules = role.Rules
			case *rbacv1.Role:
				rules = role.Rules
			default:
				continue
			}

			roles++

			for _, rule := range rules {
				for _, values := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
					require.NotEmpty(t, values, name)
					require.NotContains(t, values, "*", name)
				}
			}
		}
	}

	require.Equal(t, 4, roles)
}

// TestInstallation_ImageVectorOverwrite accepts the value as an object and as a string.
func TestInstallation_ImageVectorOverwrite(t *testing.T) {
	t.Parallel()

	const images = "images:\n- name: csi-driver\n  tag: \"1\"\n"

	for reason, value := range map[string]any{
		"a text": images, "an object": map[string]any{"images": []any{map[string]any{"name": "csi-driver", "tag": "1"}}},
	} {
		release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).
			RenderEmbeddedFS(charts.Installation, charts.ExtensionPath, "provider-kubevirt", namespace, map[string]any{"imageVectorOverwrite": value})
		require.NoError(t, err)

		content := struct {
			Data map[string]string `json:"data"`
		}{}
		require.NoError(t, yaml.Unmarshal([]byte(release.FileContent("configmap-imagevector-overwrite.yaml")), &content))
		require.YAMLEq(t, images, content.Data["images_overwrite.yaml"], reason)
	}
}

// TestInstallation_Versions requires the charts, the images in their values, and the image of the driver to have
// the version of the repository.
func TestInstallation_Versions(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)

	want := strings.TrimSpace(string(content))

	for chart, hasImage := range map[string]bool{charts.ExtensionPath: true, charts.AdmissionRuntimePath: true, charts.AdmissionApplicationPath: false} {
		var metadata struct{ Version, AppVersion string }

		readYAML(t, chart+"/Chart.yaml", &metadata)
		require.Equal(t, want, metadata.Version, chart)
		require.Equal(t, want, metadata.AppVersion, chart)

		if hasImage {
			var values struct{ Image struct{ Tag string } }

			readYAML(t, chart+"/values.yaml", &values)
			require.Equal(t, want, values.Image.Tag, chart)
		}
	}

	driver, err := imagevector.ImageVector().FindImage(imagevector.MachineControllerManagerProviderKubeVirt)
	require.NoError(t, err)
	require.Equal(t, want, *driver.Tag)
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()

	content, err := charts.Installation.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, into))
}
