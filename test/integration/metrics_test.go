package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// TestMetrics scrapes the real sidecar after machines were created and deleted and a token was
// rotated, and the real mcm-kubevirt serve after a call. It compares their metrics with
// docs/metrics.md, the alerts and the dashboard.
func TestMetrics(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	_, err := lab.AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	s.runControllers(t, "--evacuation")
	s.applyExample(t)
	s.scale(t, "example-worker-z2", 0)
	s.requireRotationIsExported(t)

	machines := s.awaitRunning(t, 1)
	inProcess := s.awaitScrape(t, s.controller.PID(), `mcm_kubevirt_machine_phase_duration_seconds_count{phase="joined"}`)
	inProcess.requireNoNames(t, slices.Collect(maps.Keys(machines)))
	inProcess.requirePhases(t)
	s.awaitEnd(t)

	overGRPC := s.serveOneCall(t)

	requireDocumented(t, inProcess, overGRPC)
	requireKnown(t, append(inProcess, overGRPC...))
}

// requireRotationIsExported replaces the kubeconfig's token by one that expires earlier.
func (s *shoot) requireRotationIsExported(t *testing.T) {
	t.Helper()

	before := s.awaitExpiry(t, 0)
	require.Greater(t, before, float64(time.Now().Add(24*time.Hour).Unix()), "the lab's tokens last for a week")

	token := s.newToken(t)
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{
		"kubeconfig": withToken(t, s.ProviderKubeconfig, func(string) string { return token }),
	}})
	require.NoError(t, err)
	_, err = s.target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	s.scale(t, "example-worker-z1", 1)

	require.Less(t, s.awaitExpiry(t, before), float64(time.Now().Add(2*time.Hour).Unix()), "the new token lasts for an hour")
}

// awaitExpiry waits until the sidecar exports another expiry time of the token than the
// given one, and returns it.
func (s *shoot) awaitExpiry(t *testing.T, other float64) float64 {
	t.Helper()

	at := other

	eventually(t, "the token's end is exported", func(ctx context.Context) (bool, error) {
		text, err := scrape(ctx, portOf(s.controller.PID()))
		if err != nil {
			return false, err
		}

		for _, x := range samplesIn(t, text) {
			if x.metric == "mcm_kubevirt_credentials_expiry_timestamp_seconds" && x.labels["namespace"] == s.ProviderNamespace && x.labels["type"] == "token" {
				at = x.value
			}
		}

		return at != other, nil
	})

	return at
}

// awaitScrape waits until a process exports a counter, and returns all its metrics.
func (s *shoot) awaitScrape(t *testing.T, pid int, counted string) samples {
	t.Helper()

	var found samples

	eventually(t, counted+" is counted", func(ctx context.Context) (bool, error) {
		text, err := scrape(ctx, portOf(pid))
		if err != nil {
			return false, err
		}

		found = samplesIn(t, text)

		return slices.ContainsFunc(found, func(x sample) bool { return x.text == counted && x.value > 0 }), nil
	})

	return found
}

// serveOneCall creates, gets and deletes a machine over gRPC, and returns the driver's metrics.
func (s *shoot) serveOneCall(t *testing.T) samples {
	t.Helper()

	endpoint := "unix://" + newSocket(t)
	server := s.startDriver(t, endpoint)
	d := dial(t, endpoint, insecure.NewCredentials())
	m := s.newMachine("zone-a", ephemeralRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	require.NoError(t, m.remove(t.Context(), d))
	_, err = m.status(t.Context(), d)
	require.Error(t, err, "what is no success is counted too")

	return s.awaitScrape(t, server.PID(), `mcm_cloud_api_driver_requests_failed_total{error_code="5",operation="get_machine_status",provider="kubevirt"}`)
}

// requireNothingTwice checks the metrics of a sidecar with a driver over gRPC: except for machines
// that joined, only the driver exports the driver's metrics.
func (s *shoot) requireNothingTwice(t *testing.T) {
	t.Helper()

	for _, x := range s.awaitScrape(t, s.controller.PID(), `mcm_kubevirt_machine_phase_duration_seconds_count{phase="joined"}`) {
		require.True(t, !x.own() || x.labels["phase"] == "joined", x.text)
	}
}

// sample is one sample of a scrape.
type sample struct {
	// text is its identity as scraped: the metric's name and its labels.
	text   string
	metric string
	// family is the name without a histogram's suffix, and kind its type.
	family, kind string
	labels       map[string]string
	value        float64
}

type samples []sample

var (
	sampleLine = regexp.MustCompile(`^(([a-zA-Z_:][\w:]*)(?:\{(.*)\})?) (\S+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// samplesIn parses a scrape in Prometheus' text format, in which a metric's
// samples follow its type.
func samplesIn(t *testing.T, scrape []byte) samples {
	t.Helper()

	var (
		all          samples
		family, kind string
	)

	for line := range strings.Lines(string(scrape)) {
		line = strings.TrimSuffix(line, "\n")
		if found := typeLine.FindStringSubmatch(line); found != nil {
			family, kind = found[1], found[2]
		}

		if strings.HasPrefix(line, "#") {
			continue
		}

		found := sampleLine.FindStringSubmatch(line)
		require.NotNil(t, found, line)

		value, err := strconv.ParseFloat(found[4], 64)
		require.NoError(t, err, line)

		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(found[3], -1) {
			labels[pair[1]] = pair[2]
		}

		all = append(all, sample{text: found[1], metric: found[2], family: family, kind: kind, labels: labels, value: value})
	}

	require.NotEmpty(t, all)

	return all
}

// own reports whether a sample belongs to the driver, rather than to
// machine-controller-manager or Go.
func (x sample) own() bool {
	return strings.HasPrefix(x.family, "mcm_kubevirt_") || strings.HasPrefix(x.family, "mcm_cloud_api_")
}

// requireNoNames checks for labels whose number of series would grow with the number of machines.
func (all samples) requireNoNames(t *testing.T, machines []string) {
	t.Helper()

	service := regexp.MustCompile(`^[a-z]+(_status)?_(get|list|watch|create|update|patch|delete|deletecollection)$`)

	for _, x := range all {
		if !x.own() {
			continue
		}

		for _, name := range machines {
			require.NotContains(t, x.text, name)
		}

		if at, ok := x.labels["service"]; ok {
			require.Regexp(t, service, at)
			require.NotRegexp(t, "^other_", at, "the driver asks for resources")
		}
	}
}

// requirePhases checks that the phases of a machine's life were counted.
func (all samples) requirePhases(t *testing.T) {
	t.Helper()

	counted := map[string]float64{}

	for _, x := range all {
		if x.metric == "mcm_kubevirt_machine_phase_duration_seconds_count" {
			counted[x.labels["phase"]] = x.value
		}
	}

	t.Logf("phases counted: %v", counted)
	require.Len(t, counted, 5)

	for _, phase := range []string{"accepted", "image", "scheduled", "joined"} {
		require.Positive(t, counted[phase], phase)
	}
}

// requireDocumented compares the metrics with docs/metrics.md: names, types, labels,
// and the exporting process.
func requireDocumented(t *testing.T, inProcess, overGRPC samples) {
	t.Helper()

	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)

	documented, exported := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:mcm_kubevirt|mcm_cloud_api)_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		slices.Sort(labels)
		documented[fmt.Sprintf("%s (%s) %v: %s", row[1], row[2], labels, row[4])] = true
	}

	sidecar, serve := inProcess.described(), overGRPC.described()
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

// described returns names, types and labels of the driver's own metrics.
func (all samples) described() map[string]bool {
	found := map[string]bool{}

	for _, x := range all {
		if x.own() {
			labels := slices.DeleteFunc(slices.Sorted(maps.Keys(x.labels)), func(name string) bool { return name == "le" })
			found[fmt.Sprintf("%s (%s) %v", x.family, x.kind, labels)] = true
		}
	}

	return found
}

// selector is the output of test/lab/modules/prometheus/cmd/promql for an expression.
type selector struct {
	From, Metric string
	Labels       []string
	Values       map[string]string
}

// requireKnown parses the shipped monitoring manifests with Prometheus' own parser, and looks for
// each metric, label and value in a scrape.
func requireKnown(t *testing.T, all samples) {
	t.Helper()

	// Prometheus adds these labels itself, and the metric "up", which reports whether a
	// target could be scraped.
	targets := []string{"namespace", "pod", "job", "instance"}

	for _, overlay := range []string{"monitoring", "monitoring/gardener", "monitoring/grpc-driver"} {
		selectors := judge(t, overlay)
		require.Greater(t, len(selectors), 30, "alerts and dashboard are part of each")

		for _, used := range selectors {
			if used.Metric == "up" {
				require.Empty(t, used.Values)
				require.Subset(t, targets, used.Labels, used.From)

				continue
			}

			require.True(t, slices.ContainsFunc(all, func(x sample) bool {
				return x.metric == used.Metric && x.has(slices.DeleteFunc(slices.Clone(used.Labels), func(name string) bool {
					return slices.Contains(targets, name)
				}), used.Values)
			}), "%s: no %s with the labels %v and the values %v is exported", used.From, used.Metric, used.Labels, used.Values)
		}
	}
}

func (x sample) has(labels []string, values map[string]string) bool {
	for _, name := range labels {
		if _, ok := x.labels[name]; !ok {
			return false
		}
	}

	for name, value := range values {
		if x.labels[name] != value {
			return false
		}
	}

	return true
}

// judge builds an overlay and returns the selectors of its expressions.
func judge(t *testing.T, overlay string) []selector {
	t.Helper()

	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, manifests.Manifests))

	objects, err := exec.CommandContext(t.Context(), lab.Binaries.Kubectl, "kustomize", filepath.Join(folder, overlay)).Output()
	require.NoError(t, err)

	var complaint bytes.Buffer

	command := exec.CommandContext(t.Context(), lab.Binaries.PromQL)
	command.Stdin, command.Stderr = bytes.NewReader(objects), &complaint
	out, err := command.Output()
	require.NoError(t, err, "%s: %s", overlay, complaint.String())

	var selectors []selector

	require.NoError(t, json.Unmarshal(out, &selectors))

	return selectors
}
