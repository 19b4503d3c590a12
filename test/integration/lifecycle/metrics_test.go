// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestMetrics scrapes the real sidecar after machines were created and deleted and a token was
// rotated, and the real mcm-kubevirt serve after a call. It compares their metrics with
// docs/metrics.md, the alerts and the dashboard.
func TestMetrics(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	_, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	s.RunControllers(t, "--evacuation", "--unschedulable-grace=10m") // A Machine that has failed for a moment joins unseen.
	s.ApplyExample(t)
	s.Scale(t, "example-worker-z2", 0)
	requireRotationIsExported(t, s)

	machines := s.AwaitRunning(t, 1)
	inProcess := s.AwaitScrape(t, s.Controller.PID(), `mcm_kubevirt_machine_phase_duration_seconds_count{phase="joined"}`)
	inProcess.RequireNoNames(t, slices.Collect(maps.Keys(machines)))
	requirePhases(t, inProcess)
	s.AwaitEnd(t)

	overGRPC := serveOneCall(t, s)

	requireBounded(t, inProcess)
	requireDocumented(t, inProcess, overGRPC)
	requireKnown(t, append(inProcess, overGRPC...))
}

// requireRotationIsExported replaces the kubeconfig's token by one that expires earlier.
func requireRotationIsExported(t *testing.T, s *harness.Shoot) {
	t.Helper()

	before := awaitExpiry(t, s, 0)
	require.Greater(t, before, float64(time.Now().Add(24*time.Hour).Unix()), "the lab's tokens last for a week")

	token := s.NewToken(t)
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{
		"kubeconfig": harness.WithToken(t, s.ProviderKubeconfig, func(string) string { return token }),
	}})
	require.NoError(t, err)
	_, err = s.Target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.Scale(t, "example-worker-z1", 1)

	require.Less(t, awaitExpiry(t, s, before), float64(time.Now().Add(2*time.Hour).Unix()), "the new token lasts for an hour")
}

// awaitExpiry waits until the sidecar exports another expiry time of the token than the
// given one, and returns it.
func awaitExpiry(t *testing.T, s *harness.Shoot, other float64) float64 {
	t.Helper()

	at := other

	harness.Eventually(t, "the expiry of the new token is exported", func(ctx context.Context) (bool, error) {
		text, err := harness.Scrape(ctx, harness.PortOf(s.Controller.PID()))
		if err != nil {
			return false, err
		}

		for _, x := range harness.SamplesIn(t, text) {
			if x.Metric == "mcm_kubevirt_credentials_expiry_timestamp_seconds" && x.Labels["namespace"] == s.ProviderNamespace && x.Labels["type"] == "token" {
				at = x.Value
			}
		}

		return at != other, nil
	})

	return at
}

// serveOneCall creates, gets and deletes a machine over gRPC, and returns the driver's metrics.
func serveOneCall(t *testing.T, s *harness.Shoot) harness.Samples {
	t.Helper()

	endpoint := "unix://" + harness.NewSocket(t)
	server := s.StartDriver(t, endpoint)
	d := harness.Dial(t, endpoint, insecure.NewCredentials())
	m := s.NewMachine("zone-a", harness.EphemeralRoot)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	require.NoError(t, m.Remove(t.Context(), d))
	_, err = m.Status(t.Context(), d)
	require.Error(t, err, "failed calls are counted too")

	return s.AwaitScrape(t, server.PID(), `mcm_cloud_api_driver_requests_failed_total{error_code="5",operation="get_machine_status",provider="kubevirt"}`)
}

// requireDocumented compares the metrics with docs/metrics.md: names, types, labels,
// and the exporting process.
func requireDocumented(t *testing.T, inProcess, overGRPC harness.Samples) {
	t.Helper()

	page, err := os.ReadFile("../../../docs/metrics.md")
	require.NoError(t, err)

	documented := map[string]bool{}
	exported := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:mcm_kubevirt|mcm_cloud_api)_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		slices.Sort(labels)
		documented[fmt.Sprintf("%s (%s) %v: %s", row[1], row[2], labels, row[4])] = true
	}

	sidecar := inProcess.Described()
	serve := overGRPC.Described()
	for what := range sidecar {
		switch {
		case serve[what]:
			exported[what+": driver"] = true
		default:
			exported[what+": sidecar"] = true
		}
	}

	for what := range serve {
		if !sidecar[what] {
			exported[what+": serve"] = true
		}
	}

	require.Equal(t, slices.Sorted(maps.Keys(exported)), slices.Sorted(maps.Keys(documented)))
}

// requireBounded requires the monitor of a shoot to keep at most half of the series that it may have.
func requireBounded(t *testing.T, inProcess harness.Samples) {
	t.Helper()

	raw, err := manifests.Manifests.ReadFile("monitoring/gardener/servicemonitor.yaml")
	require.NoError(t, err)

	var monitor struct {
		Spec struct {
			SampleLimit int
			Endpoints   []struct{ MetricRelabelings []struct{ Regex string } }
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &monitor))

	kept := regexp.MustCompile("^(" + monitor.Spec.Endpoints[0].MetricRelabelings[0].Regex + ")$")
	series := 0

	for _, sample := range inProcess {
		if kept.MatchString(sample.Metric) {
			series++
		}
	}

	t.Logf("the monitor of a shoot keeps %d of %d series", series, len(inProcess))
	require.Positive(t, series)
	require.Less(t, series, monitor.Spec.SampleLimit/2)
}

// requireKnown parses the shipped monitoring manifests with Prometheus' own parser, and looks for
// each metric, label and value in a scrape.
func requireKnown(t *testing.T, all harness.Samples) {
	t.Helper()

	// Prometheus adds these labels itself, and the metric "up", which reports whether a
	// target could be scraped.
	targets := []string{"namespace", "pod", "job", "instance"}

	for _, overlay := range []string{"monitoring", "monitoring/gardener", "monitoring/grpc-driver"} {
		selectors := harness.EvaluateMonitoring(t, overlay)
		require.Greater(t, len(selectors), 30, "alerts and dashboard are part of each")

		for _, used := range selectors {
			if used.Metric == "up" {
				require.Empty(t, used.Values)
				require.Subset(t, targets, used.Labels, used.From)

				continue
			}

			require.True(t, slices.ContainsFunc(all, func(x harness.Sample) bool {
				return x.Metric == used.Metric && x.Has(slices.DeleteFunc(slices.Clone(used.Labels), func(name string) bool {
					return slices.Contains(targets, name)
				}), used.Values)
			}), "%s: no %s with the labels %v and the values %v is exported", used.From, used.Metric, used.Labels, used.Values)
		}
	}
}

// requirePhases checks that the phases of a machine's life were counted.
func requirePhases(t *testing.T, all harness.Samples) {
	t.Helper()

	counted := map[string]float64{}

	for _, x := range all {
		if x.Metric == "mcm_kubevirt_machine_phase_duration_seconds_count" {
			counted[x.Labels["phase"]] = x.Value
		}
	}

	t.Logf("phases counted: %v", counted)
	require.Len(t, counted, 5)

	for _, phase := range []string{"accepted", "image", "scheduled", "joined"} {
		require.Positive(t, counted[phase], phase)
	}
}
