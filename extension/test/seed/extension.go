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

	if s.Extension, s.ExtensionMetrics, err = s.startInstalled(ctx, deployment); err != nil {
		return err
	}

	return s.awaitRegistered(ctx, s.Client, deployment.Name, leaderElection())
}

// startInstalled starts a program as a process: with the arguments, the environment, the projected volumes
// and the account of an installed Deployment. The API server calls its webhooks by URL. It also returns the
// URL of the program's metrics. The process is returned with an error too if it has been started.
func (s *Seed) startInstalled(ctx context.Context, deployment *appsv1.Deployment) (_ *process.Process, metrics string, _ error) {
	program, found := s.programFor(deployment)
	if !found {
		return nil, "", fmt.Errorf("the image of Deployment %s has no program of this repository", deployment.Name)
	}

	kubeconfig, err := s.account(ctx, deployment, program.needed)
	if err != nil {
		return nil, "", err
	}

	pod := s.kubeletFor(deployment)
	if err := pod.awaitVolumes(ctx, deployment); err != nil {
		return nil, "", err
	}

	env, err := pod.environmentOf(deployment)
	if err != nil {
		return nil, "", err
	}

	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return nil, "", err
	}

	health := fmt.Sprintf("127.0.0.1:%d", ports[0])
	webhooks := fmt.Sprintf("127.0.0.1:%d", ports[2])

	// Of repeated flags, the last is effective.
	p, err := s.group.Start(process.Spec{
		Name: deployment.Name,
		Path: program.path,
		Env:  env,
		Args: append(deployment.Spec.Template.Spec.Containers[0].Args,
			"--kubeconfig="+kubeconfig,
			"--"+kubevirt.FlagAllowInternalServers, // The provider cluster is on the loopback interface.
			"--health-bind-address="+health,
			fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[1]),
			"--webhook-config-mode=url",
			"--webhook-config-url="+webhooks,
			"--webhook-config-server-host=127.0.0.1",
			fmt.Sprintf("--webhook-config-server-port=%d", ports[2]),
			"--webhook-config-cert-dir="+filepath.Join(s.Folder, deployment.Name+"-webhook"),
		),
	})
	if err != nil {
		return nil, "", err
	}

	return p, fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1]), awaitHealthy(ctx, p, "http://"+health+"/readyz")
}

// kubeletFor returns what writes the volumes of an installed Deployment.
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
