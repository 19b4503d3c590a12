// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"testing"

	fluentbitv1alpha2 "github.com/fluent/fluent-operator/v3/apis/fluentbit/v1alpha2"
	"github.com/gardener/gardener/pkg/chartrenderer"
	gardenerkubernetes "github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// driverName is the name of the objects with which the driver of a shoot is monitored.
const driverName = "machine-controller-manager-provider-kubevirt"

// TestValuesProvider_DriverMonitoring compares what is deployed with its source, and with the labels that the shoot's Prometheus
// and Plutono select.
func TestValuesProvider_DriverMonitoring(t *testing.T) {
	t.Parallel()

	rendered := render(t, newControlPlane(), newCluster(), "1.34.0")

	monitor := &monitoringv1.ServiceMonitor{}
	readManifest(t, "monitoring/gardener/servicemonitor.yaml", monitor)

	rule := &monitoringv1.PrometheusRule{}
	readManifest(t, "monitoring/rules/prometheusrule.yaml", rule)

	deployedMonitor := one[*monitoringv1.ServiceMonitor](t, rendered, driverName)
	require.Equal(t, monitor.Spec, deployedMonitor.Spec)
	require.Equal(t, map[string]string{"prometheus": "shoot"}, deployedMonitor.Labels)

	deployedRule := one[*monitoringv1.PrometheusRule](t, rendered, driverName)
	require.Equal(t, rule.Spec, deployedRule.Spec)
	require.Len(t, deployedRule.Spec.Groups[0].Rules, 12)
	require.Equal(t, map[string]string{"prometheus": "shoot"}, deployedRule.Labels)

	dashboard := one[*corev1.ConfigMap](t, rendered, driverName+"-dashboard")
	require.Equal(t, map[string]string{"dashboard.monitoring.gardener.cloud/shoot": "true"}, dashboard.Labels)
	require.True(t, json.Valid([]byte(dashboard.Data["machine-controller-kubevirt.json"])))
}

func readManifest(t *testing.T, file string, object any) {
	t.Helper()

	raw, err := kubernetes.Manifests.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, object))
}

// TestForPlutono requires the converted dashboard to have the panels and queries of its source, in the form of Plutono.
func TestForPlutono(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("monitoring/rules/dashboard.json")
	require.NoError(t, err)

	converted, err := forPlutono(raw)
	require.NoError(t, err)

	require.NotContains(t, string(converted), "datasource}", "there is no choice of the data source")
	require.NotContains(t, string(converted), `"type":"datasource"`)
	require.Contains(t, string(converted), `"query":"label_values(mcm_kubevirt_golden_images, namespace)"`)

	source, target := panelsOf(t, raw), panelsOf(t, converted)
	require.Greater(t, len(target), 15)

	for i, panel := range target {
		require.Equal(t, source[i].Title, panel.Title)
		require.Equal(t, source[i].GridPos, panel.GridPos)
		require.Contains(t, []string{"row", "graph", "stat"}, panel.Type, panel.Title)
		require.Len(t, panel.Targets, len(source[i].Targets))

		for j, query := range panel.Targets {
			require.Equal(t, source[i].Targets[j].Expr, query.Expr)
			require.Nil(t, query.Datasource, panel.Title)
		}

		if panel.Type == "row" {
			continue
		}

		require.Equal(t, "prometheus", panel.Datasource, panel.Title)

		if panel.Type == "graph" {
			require.Equal(t, source[i].FieldConfig.Defaults.Unit, panel.Yaxes[0].Format, panel.Title)
		}
	}

	for _, panel := range source[len(target):] {
		for _, query := range panel.Targets {
			require.Contains(t, query.Expr, "mcm_kubevirt_driver_call", "only mcm-kubevirt serve exports what is omitted")
		}
	}

	_, err = forPlutono([]byte("no JSON"))
	require.ErrorContains(t, err, "read the dashboard")
}

type panel struct {
	Type, Title string
	Datasource  any
	GridPos     map[string]int
	FieldConfig struct{ Defaults struct{ Unit string } }
	Yaxes       []struct{ Format string }
	Targets     []struct {
		Expr       string
		Datasource any
	}
}

func panelsOf(t *testing.T, dashboard []byte) []panel {
	t.Helper()

	var d struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(dashboard, &d))

	return d.Panels
}

// TestDriverMonitoring_Metrics requires each metric of the alerts and the dashboard to be kept once: by this monitor, or by that of
// gardenlet, which scrapes the same port.
func TestDriverMonitoring_Metrics(t *testing.T) {
	t.Parallel()

	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "generic-token-kubeconfig"}}
	seed := fake.NewClientBuilder().WithScheme(gardenerkubernetes.SeedScheme).WithObjects(kubeconfig).Build()
	require.NoError(t, machinecontrollermanager.New(seed, namespace, fakesecretsmanager.New(seed, namespace), machinecontrollermanager.Values{}).Deploy(t.Context()))

	name := types.NamespacedName{Namespace: namespace, Name: "machine-controller-manager"}
	service := &corev1.Service{}
	require.NoError(t, seed.Get(t.Context(), name, service))

	monitor := &monitoringv1.ServiceMonitor{}
	readManifest(t, "monitoring/gardener/servicemonitor.yaml", monitor)

	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(service.Labels)), "it selects gardenlet's Service")
	require.True(t, slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }))

	gardenlets := &monitoringv1.ServiceMonitor{}
	name.Name = "shoot-" + name.Name
	require.NoError(t, seed.Get(t.Context(), name, gardenlets))

	ours, theirs := keptBy(t, monitor), keptBy(t, gardenlets)
	monitoring, err := driverMonitoring()
	require.NoError(t, err)

	text, err := json.Marshal([]any{monitoring["prometheusRule"], monitoring["dashboard"]})
	require.NoError(t, err)

	used := map[string]bool{}
	for _, metric := range regexp.MustCompile(`\bmcm_\w+`).FindAllString(string(text), -1) {
		used[metric] = true
	}

	for _, metric := range slices.Sorted(maps.Keys(used)) {
		require.NotEqual(t, ours.MatchString(metric), theirs.MatchString(metric), "%s must be kept once", metric)
	}

	require.Greater(t, len(used), 20)

	for _, metric := range []string{"mcm_kubevirt_driver_calls_running", "mcm_kubevirt_x", "go_goroutines", "mcm_machine_items_total"} {
		require.False(t, ours.MatchString(metric), "%s is not needed", metric)
	}

	require.Positive(t, *monitor.Spec.SampleLimit)
}

// keptBy returns the metrics that a monitor keeps of the driver's port.
func keptBy(t *testing.T, monitor *monitoringv1.ServiceMonitor) *regexp.Regexp {
	t.Helper()

	for _, endpoint := range monitor.Spec.Endpoints {
		if endpoint.Port == "providermetrics" {
			require.Len(t, endpoint.MetricRelabelConfigs, 1)
			require.Equal(t, "keep", endpoint.MetricRelabelConfigs[0].Action)

			return regexp.MustCompile("^(?:" + endpoint.MetricRelabelConfigs[0].Regex + ")$")
		}
	}

	require.Fail(t, "no endpoint for the driver")

	return nil
}

// TestClusterFilters requires one filter, Gardener's or that of the extension's chart, for the log of each program in the
// control plane that writes in the format of klog, and none of the extension's for programs of other providers.
func TestClusterFilters(t *testing.T) {
	t.Parallel()

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).
		RenderEmbeddedFS(charts.Installation, charts.ExtensionPath, "provider-kubevirt", "extension", nil)
	require.NoError(t, err)

	gardener, err := machinecontrollermanager.CentralLoggingConfiguration()
	require.NoError(t, err)
	require.Len(t, gardener.Filters, 1)

	matches := []string{gardener.Filters[0].Spec.Match}

	for _, manifest := range release.Manifests {
		filter := &fluentbitv1alpha2.ClusterFilter{}
		if manifest.Head.Kind != "ClusterFilter" {
			continue
		}

		require.NoError(t, yaml.UnmarshalStrict([]byte(manifest.Content), filter))
		require.Equal(t, "seed", filter.Labels["fluentbit.gardener/type"])
		require.Equal(t, "kube-apiserver-parser", filter.Spec.FilterItems[0].Parser.Parser)

		matches = append(matches, filter.Spec.Match)
	}

	programs := [][2]string{{"machine-controller-manager", driverName}}

	for _, object := range render(t, newControlPlane(), newCluster(), "1.34.0") {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			for _, container := range deployment.Spec.Template.Spec.Containers {
				programs = append(programs, [2]string{deployment.Name, container.Name})
			}
		}
	}

	require.Greater(t, len(programs), 7)

	filtersOf := func(pod, namespace, container string) []string {
		tag := "kubernetes.var.log.containers." + pod + "-5d4f_" + namespace + "_" + container + "-0123.log"

		return slices.DeleteFunc(slices.Clone(matches), func(pattern string) bool {
			matched, err := path.Match(pattern, tag)
			require.NoError(t, err)

			return !matched
		})
	}

	for _, program := range programs {
		want := map[bool]int{true: 0, false: 1}[program[1] == "kubevirt-provider-proxy"]
		require.Len(t, filtersOf(program[0], namespace, program[1]), want, "%v: its log is not in the format of klog", program)
	}

	require.Empty(t, filtersOf("csi-driver-controller", "shoot--p--kubevirt-csi", "aws-csi-driver"), "another provider's")
}
