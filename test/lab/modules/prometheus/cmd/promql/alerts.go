// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// interval is the interval of the scrapes and of the alert evaluations.
const interval = time.Minute

// Case holds scraped series and the alert to evaluate on them.
type Case struct {
	Alert string `json:"alert"`
	// Series are the values of each series since the start, one per minute, in the notation of
	// Prometheus' unit tests.
	Series map[string]string `json:"series"`
	// At is the evaluation time, relative to the start.
	At metav1.Duration `json:"at"`
}

// fired evaluates the alert of each case as Prometheus does, and returns the
// descriptions of the firing alerts.
func fired(objects io.Reader, file string) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}

	var cases []Case
	if err := yaml.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}

	alerts, err := alertsIn(objects)
	if err != nil {
		return nil, err
	}

	all := make([][]string, 0, len(cases))

	for _, c := range cases {
		rule, ok := alerts[c.Alert]
		if !ok {
			return nil, fmt.Errorf("there is no alert %s", c.Alert)
		}

		descriptions, err := c.evaluate(rule)
		if err != nil {
			return nil, fmt.Errorf("alert %s: %w", c.Alert, err)
		}

		all = append(all, descriptions)
	}

	return all, nil
}

// alertsIn returns the alerts of all PrometheusRules by name.
func alertsIn(from io.Reader) (map[string]monitoringv1.Rule, error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(from, 4096)
	all := map[string]monitoringv1.Rule{}

	for {
		var object monitoringv1.PrometheusRule
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read objects: %w", err)
		}

		for _, group := range object.Spec.Groups {
			for _, rule := range group.Rules {
				all[rule.Alert] = rule
			}
		}
	}
}

func (c *Case) evaluate(from monitoringv1.Rule) (descriptions []string, err error) {
	rule, err := alerting(from)
	if err != nil {
		return nil, err
	}

	load := &strings.Builder{}
	fmt.Fprintf(load, "load %s\n", model.Duration(interval))

	for name, values := range c.Series {
		fmt.Fprintf(load, "  %s %s\n", name, values)
	}

	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, fmt.Errorf("read series: %w", err)
	}

	defer func() { err = errors.Join(err, suite.Close()) }()

	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	begin := time.Unix(0, 0).UTC()

	for now := begin; !now.After(begin.Add(c.At.Duration)); now = now.Add(interval) {
		suite.WithSamplesTill(now, func(failed error) { err = failed })

		if err != nil {
			return nil, fmt.Errorf("load series: %w", err)
		}

		if _, err := rule.Eval(context.Background(), 0, now, query, nil, 0); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
	}

	for _, alert := range rule.ActiveAlerts() {
		if alert.State == rules.StateFiring {
			descriptions = append(descriptions, alert.Annotations.Get("description"))
		}
	}

	return descriptions, nil
}

// alerting converts a rule to Prometheus' own type.
func alerting(from monitoringv1.Rule) (*rules.AlertingRule, error) {
	expr, err := parser.ParseExpr(from.Expr.String())
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}

	var hold model.Duration

	if from.For != nil {
		if hold, err = model.ParseDuration(string(*from.For)); err != nil {
			return nil, fmt.Errorf("parse for: %w", err)
		}
	}

	return rules.NewAlertingRule(from.Alert, expr, time.Duration(hold), 0, labels.FromMap(from.Labels), labels.FromMap(from.Annotations),
		labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler)), nil
}

// tell prints the requested result: with a file of cases the firing alerts, and otherwise the
// selectors of the expressions.
func tell(arguments []string) error {
	var (
		found any
		err   error
	)

	if len(arguments) > 0 {
		found, err = fired(os.Stdin, arguments[0])
	} else {
		found, err = read(os.Stdin)
	}

	if err != nil {
		return err
	}

	return json.NewEncoder(os.Stdout).Encode(found)
}
