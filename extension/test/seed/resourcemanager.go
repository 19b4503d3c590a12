// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// resourceManager is one gardener-resource-manager.
type resourceManager struct {
	name string
	// class is the class of the ManagedResources; empty for those of shoots.
	class string
	// target is the kubeconfig of the cluster to which the objects are applied.
	target string
}

// startResourceManagers starts gardener-resource-manager for the seed, and for the cluster of the
// shoots' Nodes. In a seed each shoot has its own; here all shoots have one cluster for their Nodes.
func (s *Seed) startResourceManagers(ctx context.Context) error {
	for _, m := range []resourceManager{
		{name: "gardener-resource-manager-seed", class: v1beta1constants.SeedResourceManagerClass, target: s.state.ControlKubeconfig},
		{name: "gardener-resource-manager", target: s.state.TargetKubeconfig},
	} {
		if err := s.startResourceManager(ctx, m); err != nil {
			return err
		}
	}

	return nil
}

func (s *Seed) startResourceManager(ctx context.Context, m resourceManager) error {
	folder := filepath.Join(s.Folder, m.name)
	if _, err := writeServingCertificate(folder, m.name); err != nil { // The webhook server runs always.
		return err
	}

	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return err
	}

	config := filepath.Join(folder, "config.yaml")
	if err := writeYAML(config, s.configurationOf(m, folder, ports)); err != nil {
		return err
	}

	p, err := s.group.Start(process.Spec{Name: m.name, Path: s.state.ResourceManager, Args: []string{"--config=" + config}})
	if err != nil {
		return err
	}

	return awaitHealthy(ctx, p, fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0]))
}

// configurationOf enables ManagedResources, and for shoots the requests of tokens. gardenlet enables
// more, for pods of the seed and of the shoot, which the lab does not run.
func (s *Seed) configurationOf(m resourceManager, certificates string, ports []int) map[string]any {
	type object = map[string]any

	server := func(port int) object { return object{"bindAddress": "127.0.0.1", "port": port} }
	webhooks := server(ports[2])
	webhooks["tls"] = object{"serverCertDir": certificates}

	controllers := object{
		"managedResources": object{"concurrentSyncs": 5, "syncPeriod": "1m"},
		"tokenRequestor":   object{"enabled": m.class == "", "concurrentSyncs": 5},
	}
	if m.class != "" {
		controllers["resourceClass"] = m.class
	}

	return object{
		"apiVersion":             "resourcemanager.config.gardener.cloud/v1alpha1",
		"kind":                   "ResourceManagerConfiguration",
		"sourceClientConnection": object{"kubeconfig": s.state.ControlKubeconfig, "qps": 100, "burst": 130},
		"targetClientConnection": object{"kubeconfig": m.target, "qps": 100, "burst": 130},
		"leaderElection":         object{"leaderElect": false},
		"logLevel":               "info",
		"logFormat":              "text",
		"server":                 object{"healthProbes": server(ports[0]), "metrics": server(ports[1]), "webhooks": webhooks},
		"controllers":            controllers,
	}
}

func writeYAML(file string, content any) error {
	data, err := yaml.Marshal(content)
	if err != nil {
		return err
	}

	return os.WriteFile(file, data, 0o600)
}
