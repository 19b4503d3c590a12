// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"fmt"
	"maps"
)

const (
	// plutonoSchema is the version of dashboards in Plutono, which is a fork of Grafana 7.5.
	plutonoSchema = 27
	// plutonoSource is the data source of the shoot's Plutono. Gardener's extensions refer to it by this name.
	plutonoSource = "prometheus"
	// rowOfServe is the row with the metrics of mcm-kubevirt serve, which Gardener does not run.
	rowOfServe = "The driver over gRPC"
)

// forPlutono converts a dashboard of the present Grafana: Plutono knows neither its panels for time series nor its
// references to data sources.
func forPlutono(raw []byte) ([]byte, error) {
	var dashboard map[string]any
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}

	dashboard["schemaVersion"] = plutonoSchema
	dashboard["panels"] = plutonoPanels(objects(dashboard["panels"]))
	dashboard["templating"] = map[string]any{"list": plutonoVariables(objects(object(dashboard["templating"])["list"]))}

	return json.Marshal(dashboard)
}

// objects returns the elements of an array that are objects.
func objects(value any) []map[string]any {
	list, _ := value.([]any)
	all := make([]map[string]any, len(list))

	for i := range list {
		all[i] = object(list[i])
	}

	return all
}

// object returns a value that is an object, and nil otherwise.
func object(value any) map[string]any {
	fields, _ := value.(map[string]any)

	return fields
}

// plutonoVariables returns the variables without the choice of the data source.
func plutonoVariables(all []map[string]any) []map[string]any {
	var variables []map[string]any

	for _, variable := range all {
		if variable["type"] == "datasource" {
			continue
		}

		variable["datasource"] = plutonoSource
		variables = append(variables, variable)
	}

	return variables
}

// plutonoPanels returns the panels up to the row of mcm-kubevirt serve, which is the last one.
func plutonoPanels(all []map[string]any) []map[string]any {
	var panels []map[string]any

	for _, panel := range all {
		switch panel["type"] {
		case "row":
			if panel["title"] == rowOfServe {
				return panels
			}
		case "timeseries":
			panel = graph(panel)
		}

		if panel["type"] != "row" {
			panel["datasource"] = plutonoSource

			for _, query := range objects(panel["targets"]) {
				delete(query, "datasource")
			}
		}

		panels = append(panels, panel)
	}

	return panels
}

// graph returns a panel for time series as a graph.
func graph(panel map[string]any) map[string]any {
	converted := maps.Clone(panel)
	delete(converted, "fieldConfig")

	defaults := object(object(panel["fieldConfig"])["defaults"])

	maps.Copy(converted, map[string]any{
		"type":          "graph",
		"renderer":      "flot",
		"lines":         true,
		"linewidth":     1,
		"fill":          0,
		"nullPointMode": "null",
		"legend":        map[string]any{"show": true, "values": false},
		"tooltip":       map[string]any{"shared": true, "sort": 2, "value_type": "individual"},
		"xaxis":         map[string]any{"mode": "time", "show": true, "values": []any{}},
		"yaxes": []any{
			map[string]any{"format": defaults["unit"], "min": defaults["min"], "logBase": 1, "show": true},
			map[string]any{"format": "short", "logBase": 1, "show": false},
		},
	})

	return converted
}
