// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"io"
	"path/filepath"
	"time"
)

// ClusterAPI holds the paths of Cluster API and of its provider for KubeVirt, with which the benchmarks compare the driver.
type ClusterAPI struct {
	Core, Provider               string // the programs
	CoreTypes, ProviderTypes     string // folders with their CustomResourceDefinitions
	CoreVersion, ProviderVersion Version
}

const (
	clusterAPI         = "cluster-api"
	clusterAPIModule   = "sigs.k8s.io/" + clusterAPI
	clusterAPIProvider = "cluster-api-provider-kubevirt"
	providerModule     = "sigs.k8s.io/" + clusterAPIProvider
)

// EnsureClusterAPI returns Cluster API and its provider for KubeVirt, and first builds them if they are missing.
func EnsureClusterAPI(ctx context.Context, progress io.Writer) (*ClusterAPI, error) {
	l, cache, err := currentLayout(component.chosen)
	if err != nil {
		return nil, err
	}
	found := &ClusterAPI{}
	if found.CoreVersion, err = required(l.modules[clusterAPI], clusterAPIModule); err != nil {
		return nil, err
	}
	if found.ProviderVersion, err = required(l.modules[clusterAPI], providerModule); err != nil {
		return nil, err
	}
	steps := l.clusterAPI(found)
	if len(missing(steps)) > 0 {
		if err := build(ctx, cache, steps, progress); err != nil {
			return nil, err
		}
	}
	for i, path := range []*string{&found.Core, &found.CoreTypes, &found.Provider, &found.ProviderTypes} {
		*path = filepath.Join(l.targets[clusterAPI], steps[i/2].outputs[i%2])
	}
	return found, nil
}

// clusterAPI returns the steps that build both.
func (l layout) clusterAPI(v *ClusterAPI) []step {
	one := func(number int, name, module string, version Version, estimate time.Duration) step {
		return step{
			number:   number,
			name:     name + " " + string(version),
			module:   l.modules[clusterAPI],
			target:   l.targets[clusterAPI],
			outputs:  []string{name, name + "-crds"},
			estimate: estimate,
			produce:  both(compiled(ldflags, module), copied(module, "config/crd/bases")),
		}
	}
	return []step{
		one(1, clusterAPI, clusterAPIModule, v.CoreVersion, 100*time.Second),
		one(2, clusterAPIProvider, providerModule, v.ProviderVersion, 40*time.Second),
	}
}
