// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// AwaitScrape waits until a process exports a counter, and returns all its metrics.
func (s *Shoot) AwaitScrape(t *testing.T, pid int, counted string) Samples {
	t.Helper()

	var found Samples

	Eventually(t, counted+" is counted", func(ctx context.Context) (bool, error) {
		text, err := Scrape(ctx, PortOf(pid))
		if err != nil {
			return false, err
		}

		found = SamplesIn(t, text)

		return slices.ContainsFunc(found, func(x Sample) bool { return x.text == counted && x.Value > 0 }), nil
	})

	return found
}

// RequireNothingTwice checks the metrics of a sidecar with a driver over gRPC: except for machines
// that joined, only the driver exports the driver's metrics.
func (s *Shoot) RequireNothingTwice(t *testing.T) {
	t.Helper()

	for _, x := range s.AwaitScrape(t, s.Controller.PID(), `mcm_kubevirt_machine_phase_duration_seconds_count{phase="joined"}`) {
		require.True(t, !x.own() || x.Labels["phase"] == "joined", x.text)
	}
}

// Sample is one sample of a scrape.
type Sample struct {
	// text is its identity as scraped: the metric's name and its labels.
	text   string
	Metric string
	// family is the name without a histogram's suffix, and kind its type.
	family, kind string
	Labels       map[string]string
	Value        float64
}

// Samples are the samples of a scrape.
type Samples []Sample

var (
	sampleLine = regexp.MustCompile(`^(([a-zA-Z_:][\w:]*)(?:\{(.*)\})?) (\S+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// SamplesIn parses a scrape in Prometheus' text format, in which a metric's
// samples follow its type.
func SamplesIn(t *testing.T, scrape []byte) Samples {
	t.Helper()

	var (
		all          Samples
		family, kind string
	)

	for line := range strings.Lines(string(scrape)) {
		line = strings.TrimSuffix(line, "\n")
		if found := typeLine.FindStringSubmatch(line); found != nil {
			family = found[1]
			kind = found[2]
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

		all = append(all, Sample{text: found[1], Metric: found[2], family: family, kind: kind, Labels: labels, Value: value})
	}

	require.NotEmpty(t, all)

	return all
}

// own reports whether a sample belongs to the driver, rather than to
// machine-controller-manager or Go.
func (x Sample) own() bool {
	return strings.HasPrefix(x.family, "mcm_kubevirt_") || strings.HasPrefix(x.family, "mcm_cloud_api_")
}

// RequireNoNames checks for labels whose number of series would grow with the number of machines.
func (all Samples) RequireNoNames(t *testing.T, machines []string) {
	t.Helper()

	service := regexp.MustCompile(`^[a-z]+(_status)?_(get|list|watch|create|update|patch|delete|deletecollection)$`)

	for _, x := range all {
		if !x.own() {
			continue
		}

		for _, name := range machines {
			require.NotContains(t, x.text, name)
		}

		if at, ok := x.Labels["service"]; ok {
			require.Regexp(t, service, at)
			require.NotRegexp(t, "^other_", at, "requests of the driver must be counted by resource")
		}
	}
}

// Described returns names, types and labels of the driver's own metrics.
func (all Samples) Described() map[string]bool {
	found := map[string]bool{}

	for _, x := range all {
		if x.own() {
			labels := slices.DeleteFunc(slices.Sorted(maps.Keys(x.Labels)), func(name string) bool { return name == "le" })
			found[fmt.Sprintf("%s (%s) %v", x.family, x.kind, labels)] = true
		}
	}

	return found
}

// Has reports whether the sample has exactly these labels, with these values.
func (x Sample) Has(labels []string, values map[string]string) bool {
	for _, name := range labels {
		if _, ok := x.Labels[name]; !ok {
			return false
		}
	}

	for name, value := range values {
		if x.Labels[name] != value {
			return false
		}
	}

	return true
}

// PortOf returns the port of a running controller, or "" if it has none or has exited.
func PortOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // It may just have exited.

	for arg := range bytes.SplitSeq(line, []byte{0}) {
		if port, ok := strings.CutPrefix(string(arg), "--port="); ok {
			return port
		}

		if port, ok := strings.CutPrefix(string(arg), "--metrics-address=127.0.0.1:"); ok {
			return port
		}
	}

	return ""
}

// Scrape returns the metrics of the process that serves them on this port.
func Scrape(ctx context.Context, port string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}

	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // Fully read.

	return io.ReadAll(resp.Body)
}
