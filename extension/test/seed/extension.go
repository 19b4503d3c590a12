// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// startExtension starts the extension.
func (s *Seed) startExtension(ctx context.Context) error {
	deployment, err := s.install(ctx)
	if err != nil {
		return err
	}

	if s.Extension, s.ExtensionMetrics, err = s.startProgram(ctx, deployment); err != nil {
		return err
	}

	return s.awaitRegistered(ctx, s.Client, deployment.Name, leaderElection())
}

// startProgram starts the program of a chart as soon as its volumes exist. It returns the process, and the URL of its
// metrics.
func (s *Seed) startProgram(ctx context.Context, deployment *appsv1.Deployment) (*process.Process, string, error) {
	pod := s.kubeletFor(deployment)
	if err := pod.awaitVolumes(ctx, deployment); err != nil {
		return nil, "", err
	}

	metrics, err := pod.startInstalled(ctx, deployment)
	if err != nil {
		return nil, "", err
	}

	return pod.running[0], metrics, nil
}

// startInstalled starts the program of a chart: with the arguments, the environment, the volumes, which are written,
// and the account of its Deployment. The API server calls its webhooks by URL. It returns the URL of the program's
// metrics.
func (k *kubelet) startInstalled(ctx context.Context, deployment *appsv1.Deployment) (metrics string, _ error) {
	program, found := k.seed.programFor(deployment)
	if !found {
		return "", fmt.Errorf("the image of Deployment %s has no program of this repository", k.key)
	}

	kubeconfig, err := k.seed.account(ctx, deployment, program.needed)
	if err != nil {
		return "", err
	}

	env, err := k.environmentOf(deployment)
	if err != nil {
		return "", err
	}

	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return "", err
	}

	health := fmt.Sprintf("127.0.0.1:%d", ports[0])
	metrics = fmt.Sprintf("127.0.0.1:%d", ports[1])

	// Of repeated flags, the last is effective.
	p, err := k.seed.group.Start(process.Spec{
		Name: deployment.Name,
		Path: program.path,
		Env:  env,
		Args: append(append(deployment.Spec.Template.Spec.Containers[0].Args, program.args...),
			"--kubeconfig="+kubeconfig,
			"--"+kubevirt.FlagAllowInternalServers, // The provider cluster is on the loopback interface.
			"--health-bind-address="+health,
			"--metrics-bind-address="+metrics,
			"--webhook-config-mode=url",
			fmt.Sprintf("--webhook-config-url=127.0.0.1:%d", ports[2]),
			"--webhook-config-server-host=127.0.0.1",
			fmt.Sprintf("--webhook-config-server-port=%d", ports[2]),
			"--webhook-config-cert-dir="+filepath.Join(k.seed.Folder, deployment.Name+"-webhook"),
		),
	})
	if err != nil {
		return "", err
	}

	k.running = append(k.running, p)
	metrics = "http://" + metrics + "/metrics"

	if err := awaitHealthy(ctx, p, "http://"+health+"/readyz"); err != nil {
		return "", err
	}

	if k.installed != nil {
		k.installed("started %s as process %d; log %s, metrics %s", k.key, p.PID(), p.LogFile(), metrics)
	}

	return metrics, nil
}

// kubeletFor returns the kubelet of an installed Deployment.
func (s *Seed) kubeletFor(deployment *appsv1.Deployment) *kubelet {
	return &kubelet{seed: s, key: client.ObjectKeyFromObject(deployment), folder: filepath.Join(s.Folder, "pods", deployment.Name)}
}

// leaderElection returns the Lease of the extension's leader.
func leaderElection() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ExtensionNamespace, Name: "provider-kubevirt-leader-election"}}
}

// awaitRegistered waits until a program is the leader in the seed, and registered its webhooks in a cluster
// with their certificate.
func (s *Seed) awaitRegistered(ctx context.Context, cluster client.Client, name string, lease *coordinationv1.Lease) error {
	const every, atMost = 200 * time.Millisecond, time.Minute

	registered := func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return false, client.IgnoreNotFound(err)
		}

		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err := cluster.Get(ctx, client.ObjectKey{Name: name}, config)

		return len(config.Webhooks) > 0 && len(config.Webhooks[0].ClientConfig.CABundle) > 0, client.IgnoreNotFound(err)
	}

	return wrap(wait.PollUntilContextTimeout(ctx, every, atMost, true, registered), "await the webhooks "+name)
}
