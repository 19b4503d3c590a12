// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
)

// WithMonitoring builds the program that Evaluate needs.
func WithMonitoring() Option { return func(s *Seed) { s.withMonitoring = true } }

// Evaluate gives PrometheusRules and dashboards to the lab's program with Prometheus' parser and rules
// (test/lab/modules/prometheus/cmd/promql), and returns its output. The seed must have been started WithMonitoring.
func (s *Seed) Evaluate(ctx context.Context, objects []byte, args ...string) ([]byte, error) {
	var complaint bytes.Buffer

	command := exec.CommandContext(ctx, s.state.PromQL, args...)
	command.Stdin = bytes.NewReader(objects)
	command.Stderr = &complaint

	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("evaluate alerts and dashboards: %w: %s", err, complaint.String())
	}

	return output, nil
}

// Scrape returns the metrics of a program (ExtensionMetrics or AdmissionMetrics) as Prometheus reads them.
func (s *Seed) Scrape(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("scrape %s: %w", url, err)
	}
	defer response.Body.Close() //nolint:errcheck // read-only

	text, err := io.ReadAll(response.Body)

	return string(text), err
}
