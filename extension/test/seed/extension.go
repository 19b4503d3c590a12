package seed

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// extensionNamespace is the namespace in which gardenlet installs the extension.
const extensionNamespace = "extension-provider-kubevirt"

// startExtension starts the extension as a process. The API server calls its webhook by URL.
func (s *Seed) startExtension(ctx context.Context) error {
	if err := s.namespace(ctx, extensionNamespace, nil); err != nil {
		return err
	}

	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return err
	}

	health := fmt.Sprintf("127.0.0.1:%d", ports[0])

	s.Extension, err = s.group.Start(process.Spec{
		Name: "extension", Path: s.programs.extension,
		Args: []string{
			"--kubeconfig=" + s.state.ControlKubeconfig,
			"--leader-election=false",
			"--health-bind-address=" + health,
			fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[1]),
			"--heartbeat-namespace=" + extensionNamespace,
			"--webhook-config-namespace=" + extensionNamespace,
			"--webhook-config-mode=url",
			fmt.Sprintf("--webhook-config-url=127.0.0.1:%d", ports[2]),
			"--webhook-config-server-host=127.0.0.1",
			fmt.Sprintf("--webhook-config-server-port=%d", ports[2]),
			"--webhook-config-cert-dir=" + filepath.Join(s.Folder, "webhook"),
		},
	})
	if err != nil {
		return err
	}

	if err := awaitHealthy(ctx, s.Extension, "http://"+health+"/readyz"); err != nil {
		return err
	}

	return s.awaitWebhook(ctx)
}

// awaitWebhook waits until the extension registered its webhook with its certificate.
func (s *Seed) awaitWebhook(ctx context.Context) error {
	const every, atMost = 200 * time.Millisecond, time.Minute

	registered := func(ctx context.Context) (bool, error) {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err := s.Client.Get(ctx, client.ObjectKey{Name: "gardener-extension-provider-kubevirt"}, config)

		return len(config.Webhooks) > 0 && len(config.Webhooks[0].ClientConfig.CABundle) > 0, client.IgnoreNotFound(err)
	}

	return wrap(wait.PollUntilContextTimeout(ctx, every, atMost, true, registered), "await the extension's webhook")
}
