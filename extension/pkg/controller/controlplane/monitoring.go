// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// driverMonitoring returns the values of the driver's monitor, alerts and dashboard: those of
// kubernetes/monitoring, which are the same for every shoot.
var driverMonitoring = sync.OnceValues(func() (values, error) {
	monitor, err := specOf("monitoring/gardener/servicemonitor.yaml")
	if err != nil {
		return nil, err
	}

	rule, err := specOf("monitoring/rules/prometheusrule.yaml")
	if err != nil {
		return nil, err
	}

	raw, err := kubernetes.Manifests.ReadFile("monitoring/rules/dashboard.json")
	if err != nil {
		return nil, err
	}

	dashboard, err := forPlutono(raw)
	if err != nil {
		return nil, err
	}

	return values{"serviceMonitor": monitor, "prometheusRule": rule, "dashboard": string(dashboard)}, nil
})

// specOf returns the spec of a manifest.
func specOf(file string) (values, error) {
	raw, err := kubernetes.Manifests.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var object struct {
		Spec values `json:"spec"`
	}

	if err := yaml.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}

	return object.Spec, nil
}
