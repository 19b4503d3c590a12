// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command promql validates the shipped monitoring manifests with Prometheus' own parser. It reads
// PrometheusRules, ServiceMonitors, and ConfigMaps with Grafana's dashboards from its standard
// input, rejects anything that Prometheus or its operator would reject or ignore, and prints the
// metrics and labels used by each expression, as JSON. Given a file with cases, it evaluates their
// alerts with Prometheus' own rules, and prints the descriptions of the firing alerts. It is a
// separate module so that neither the driver nor its tests have Prometheus' dependencies.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Selector is one use of a metric.
type Selector struct {
	// From is the name of the alert or of the dashboard's panel.
	From string `json:"from"`
	// Metric is the metric's name, with a histogram's suffix.
	Metric string `json:"metric"`
	// Labels are the labels by which it is selected or grouped.
	Labels []string `json:"labels"`
	// Values are the values of labels that must have one value.
	Values map[string]string `json:"values"`
}

func main() {
	if err := tell(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(from io.Reader) ([]Selector, error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(from, 4096)

	var all []Selector

	for {
		var document json.RawMessage
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read objects: %w", err)
		}

		found, err := judge(document)
		if err != nil {
			return nil, err
		}

		all = append(all, found...)
	}
}

func judge(document []byte) ([]Selector, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(document, &kind); err != nil {
		return nil, fmt.Errorf("read kind: %w", err)
	}

	switch kind.Kind {
	case monitoringv1.PrometheusRuleKind:
		return ruleSelectors(document)
	case monitoringv1.PodMonitorsKind:
		return nil, yaml.UnmarshalStrict(document, &monitoringv1.PodMonitor{})
	case monitoringv1.ServiceMonitorsKind:
		return nil, yaml.UnmarshalStrict(document, &monitoringv1.ServiceMonitor{})
	case "ConfigMap":
		return dashboards(document)
	case "Service":
		return nil, yaml.UnmarshalStrict(document, &corev1.Service{})
	default:
		return nil, fmt.Errorf("objects of kind %s are not checked", kind.Kind)
	}
}

func ruleSelectors(document []byte) ([]Selector, error) {
	var object monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return nil, fmt.Errorf("read PrometheusRule: %w", err)
	}

	// Prometheus reads only this part of the object, with a string as the expression.
	text, err := json.Marshal(object.Spec)
	if err != nil {
		return nil, fmt.Errorf("write rules: %w", err)
	}

	groups, faults := rulefmt.Parse(text, false, model.LegacyValidation)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}

	var all []Selector

	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			found, err := selectors("alert "+rule.Alert, rule.Expr)
			if err != nil {
				return nil, err
			}

			all = append(all, found...)
		}
	}

	return all, nil
}

// dashboard holds the validated fields of a Grafana dashboard.
type dashboard struct {
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	Panels []panel `json:"panels"`
}

func dashboards(document []byte) ([]Selector, error) {
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return nil, fmt.Errorf("read ConfigMap: %w", err)
	}

	var all []Selector

	for name, text := range object.Data {
		var d dashboard
		if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&d); err != nil {
			return nil, fmt.Errorf("read dashboard %s: %w", name, err)
		}

		found, err := d.selectors()
		if err != nil {
			return nil, err
		}

		all = append(all, found...)
	}

	return all, nil
}

// labelValues matches the part of a variable's query that Grafana itself
// parses; the rest is PromQL.
var labelValues = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

func (d *dashboard) selectors() ([]Selector, error) {
	all, err := panels(d.Title, d.Panels)
	if err != nil {
		return nil, err
	}

	for _, variable := range d.Templating.List {
		if variable.Type != "query" {
			continue
		}

		var query string
		if err := json.Unmarshal(variable.Query, &query); err != nil {
			return nil, fmt.Errorf("variable %s: the query must be a text: %w", variable.Name, err)
		}

		parts := labelValues.FindStringSubmatch(query)
		if parts == nil {
			return nil, fmt.Errorf("variable %s: the query %q is not checked", variable.Name, query)
		}

		found, err := selectors("variable "+variable.Name, parts[1])
		if err != nil {
			return nil, err
		}

		all = append(all, found...)
	}

	return all, nil
}

func panels(of string, list []panel) ([]Selector, error) {
	var all []Selector

	for _, p := range list {
		name := "panel " + of + "/" + p.Title
		if p.Type != "row" && len(p.Targets) == 0 {
			return nil, fmt.Errorf("%s shows nothing", name)
		}

		for _, target := range p.Targets {
			found, err := selectors(name, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			if err != nil {
				return nil, err
			}

			all = append(all, found...)
		}

		inner, err := panels(of, p.Panels)
		if err != nil {
			return nil, err
		}

		all = append(all, inner...)
	}

	return all, nil
}

// selectors parses an expression. It rejects selectors without a metric name, because their
// metrics cannot be checked.
func selectors(from, expr string) ([]Selector, error) {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", from, expr, err)
	}

	var (
		all      []Selector
		nameless bool
	)

	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		vector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}

		nameless = nameless || vector.Name == ""
		all = append(all, Selector{From: from, Metric: vector.Name, Labels: labelsOf(vector, path), Values: valuesOf(vector)})

		return nil
	})

	if nameless || len(all) == 0 {
		return nil, fmt.Errorf("%s: %s: each selector must name its metric", from, expr)
	}

	return all, nil
}

// labelsOf returns the labels by which a selector is matched, grouped or joined.
func labelsOf(vector *parser.VectorSelector, path []parser.Node) []string {
	var names []string

	for _, matcher := range vector.LabelMatchers {
		if matcher.Name != labels.MetricName {
			names = append(names, matcher.Name)
		}
	}

	for _, node := range path {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = append(names, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = append(names, n.VectorMatching.MatchingLabels...)
			}
		}
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// valuesOf returns the label values required by a selector.
func valuesOf(vector *parser.VectorSelector) map[string]string {
	values := map[string]string{}

	for _, matcher := range vector.LabelMatchers {
		if matcher.Name != labels.MetricName && matcher.Type == labels.MatchEqual {
			values[matcher.Name] = matcher.Value
		}
	}

	return values
}
