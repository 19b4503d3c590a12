// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// StartMachineControllerManager runs the real machine-controller-manager for a shoot and returns
// when it is healthy. Extra arguments override the lab's own.
func (l *Lab) StartMachineControllerManager(ctx context.Context, s *Shoot, extraArgs ...string) (*process.Process, error) {
	args := append(sharedArgs(s, s.MCMKubeconfig), extraArgs...)
	return l.startController(ctx, process.Spec{
		Name: s.Name + "-machine-controller-manager",
		Path: l.Binaries.MCM,
		Args: args,
	})
}

// creationTimeout and orphanPeriod must also be passed to a driver over gRPC.
const (
	creationTimeout = "--machine-creation-timeout=20m"
	orphanPeriod    = "--machine-safety-orphan-vms-period=1m"
)

// StartSidecar runs a machine-controller binary, the driver, for a shoot and returns when it is
// healthy. Its timeouts are long, because everything takes longer on a busy machine. A test that
// needs a timeout to expire sets it in the Machine or here: extra arguments override the lab's own.
func (l *Lab) StartSidecar(ctx context.Context, s *Shoot, binary string, extraArgs ...string) (*process.Process, error) {
	args := append(sharedArgs(s, s.SidecarKubeconfig),
		creationTimeout, "--machine-drain-timeout=10m", "--machine-health-timeout=10m",
		"--machine-pv-detach-timeout=10s", "--machine-pv-reattach-timeout=10s", orphanPeriod, "--resource-exhausted-retry=1m",
	)
	args = append(append(args, l.joinArgs()...), l.SidecarArgs...)
	return l.startController(ctx, process.Spec{
		Name: s.Name + "-machine-controller",
		Path: binary,
		Args: append(args, extraArgs...),
	})
}

// StartDriver runs an mcm-kubevirt binary as the driver over gRPC for a shoot, listening on the
// endpoint listen, and returns when it is healthy.
func (l *Lab) StartDriver(ctx context.Context, s *Shoot, binary, listen string, extraArgs ...string) (*process.Process, error) {
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("start the driver of shoot %s: %w", s.Name, err)
	}
	metrics := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := append([]string{
		"serve", "--listen=" + listen, "--metrics-address=" + metrics, "--v=3", creationTimeout, orphanPeriod,
	}, l.SidecarArgs...)
	return l.startHealthy(ctx, process.Spec{Name: s.Name + "-driver", Path: binary, Args: append(args, extraArgs...)}, metrics)
}

// StartCloudController runs a kubevirt-cloud-controller-manager binary for a shoot, with all permissions. Shoots share the
// cluster of their Nodes: the controller that removes Nodes without a machine does not run.
func (l *Lab) StartCloudController(ctx context.Context, s *Shoot, binary string, extraArgs ...string) (*process.Process, error) {
	provider, err := l.Provider.Kubeconfig(l.Provider.Config().BearerToken, s.ProviderNamespace)
	if err != nil {
		return nil, fmt.Errorf("start the cloud controller of shoot %s: %w", s.Name, err)
	}
	target, err := l.Control.Kubeconfig(l.Control.Config().BearerToken, "")
	if err != nil {
		return nil, fmt.Errorf("start the cloud controller of shoot %s: %w", s.Name, err)
	}
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("start the cloud controller of shoot %s: %w", s.Name, err)
	}
	file := func(name string) string { return filepath.Join(l.shootDir(s), "cloud-controller-"+name) }
	for name, content := range map[string][]byte{
		"provider": provider, "target": target, "config": []byte("kubeconfig: " + file("provider") + "\n"),
	} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			return nil, fmt.Errorf("start the cloud controller of shoot %s: %w", s.Name, err)
		}
	}
	return l.group.Start(process.Spec{
		Name: s.Name + "-cloud-controller-manager",
		Path: binary,
		Args: append([]string{
			"--cloud-config=" + file("config"), "--cluster-name=" + s.Namespace, "--kubeconfig=" + file("target"),
			"--leader-elect=false", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
			"--allow-internal-provider-servers=true", "--controllers=*,-cloud-node-lifecycle-controller", "--v=2",
		}, extraArgs...),
	})
}

func sharedArgs(s *Shoot, kubeconfig string) []string {
	return []string{
		"--control-kubeconfig=" + kubeconfig, "--target-kubeconfig=" + kubeconfig, "--namespace=" + s.Namespace,
		"--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400", "--v=3",
	}
}

func (l *Lab) startController(ctx context.Context, spec process.Spec) (*process.Process, error) {
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	// Prepended: a --port passed by the caller would win if appended, and break the health check.
	spec.Args = append([]string{"--address=127.0.0.1"}, append(spec.Args, fmt.Sprintf("--port=%d", ports[0]))...)
	return l.startHealthy(ctx, spec, fmt.Sprintf("127.0.0.1:%d", ports[0]))
}

// startHealthy starts a process and returns when it reports healthy at the address.
func (l *Lab) startHealthy(ctx context.Context, spec process.Spec, address string) (*process.Process, error) {
	p, err := l.group.Start(spec)
	if err != nil {
		return nil, err
	}
	if err := controlplane.AwaitHTTP(ctx, p, "http://"+address+"/healthz"); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, nil
}
