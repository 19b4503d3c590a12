// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// CloudController is cloud-controller-manager without Gardener, for the Nodes and Services of the seed's API server.
type CloudController struct {
	// ClusterName is --cluster-name.
	ClusterName string
	// Namespace is the namespace of the machines in the provider cluster.
	Namespace string
	// Server replaces the provider cluster's API server; nil for the real one.
	Server *httptest.Server
	// Config has further lines of the cloud-config.
	Config string
	// Env are environment variables.
	Env []string
}

// StartCloudController starts a cloud-controller-manager, which ends with the seed.
func (s *Seed) StartCloudController(ctx context.Context, c CloudController) (*process.Process, error) {
	folder, err := os.MkdirTemp(s.Folder, "cloud-controller-")
	if err != nil {
		return nil, err
	}

	provider := kubeconfigOf(s.providerConfig, c.Namespace, map[string]any{"token": s.providerConfig.BearerToken})
	if c.Server != nil {
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Server.Certificate().Raw})
		provider = kubeconfigOf(&rest.Config{Host: c.Server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, c.Namespace, map[string]any{"token": "t"})
	}

	kubeconfig, err := yaml.Marshal(provider)
	if err != nil {
		return nil, err
	}

	for name, content := range map[string]string{"kubeconfig": string(kubeconfig), "cloud-config": "kubeconfig: " + filepath.Join(folder, "kubeconfig") + "\n" + c.Config} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}

	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}

	return s.group.Start(process.Spec{
		Name: "cloud-controller-" + c.ClusterName,
		Path: filepath.Join(s.programs.folder, cloudControllerContainer),
		Args: []string{
			"--cloud-config=" + filepath.Join(folder, "cloud-config"), "--cluster-name=" + c.ClusterName, "--kubeconfig=" + s.state.ControlKubeconfig,
			"--leader-elect=false", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--allow-internal-provider-servers=true",
			"--concurrent-service-syncs=10", "--node-monitor-period=1s", "--v=2",
		},
		Env: append([]string{"KUBECONFIG="}, c.Env...),
	})
}

// ProviderConfig returns the configuration of a client with all permissions for the provider cluster.
func (s *Seed) ProviderConfig() *rest.Config { return rest.CopyConfig(s.providerConfig) }
