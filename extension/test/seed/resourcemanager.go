package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/gardener/pkg/utils/secrets"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// startResourceManager starts gardener-resource-manager for the cluster of the shoots' Nodes. In a
// seed each shoot has its own; here all shoots have one cluster for their Nodes.
func (s *Seed) startResourceManager(ctx context.Context) error {
	folder := filepath.Join(s.Folder, "resource-manager")
	if err := writeServingCertificate(folder); err != nil {
		return err
	}

	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return err
	}

	config := filepath.Join(folder, "config.yaml")
	if err := writeYAML(config, s.resourceManagerConfiguration(folder, ports)); err != nil {
		return err
	}

	p, err := s.group.Start(process.Spec{Name: "gardener-resource-manager", Path: s.state.ResourceManager, Args: []string{"--config=" + config}})
	if err != nil {
		return err
	}

	return awaitHealthy(ctx, p, fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0]))
}

// resourceManagerConfiguration enables ManagedResources and the requests of tokens. gardenlet enables
// more, for pods of the seed and of the shoot, which the lab does not run.
func (s *Seed) resourceManagerConfiguration(certificates string, ports []int) map[string]any {
	type object = map[string]any

	server := func(port int) object { return object{"bindAddress": "127.0.0.1", "port": port} }
	webhooks := server(ports[2])
	webhooks["tls"] = object{"serverCertDir": certificates}

	return object{
		"apiVersion":             "resourcemanager.config.gardener.cloud/v1alpha1",
		"kind":                   "ResourceManagerConfiguration",
		"sourceClientConnection": object{"kubeconfig": s.state.ControlKubeconfig, "qps": 100, "burst": 130},
		"targetClientConnection": object{"kubeconfig": s.state.TargetKubeconfig, "qps": 100, "burst": 130},
		"leaderElection":         object{"leaderElect": false},
		"logLevel":               "info",
		"logFormat":              "text",
		"server":                 object{"healthProbes": server(ports[0]), "metrics": server(ports[1]), "webhooks": webhooks},
		"controllers": object{
			"managedResources": object{"concurrentSyncs": 5, "syncPeriod": "1m"},
			"tokenRequestor":   object{"enabled": true, "concurrentSyncs": 5},
		},
	}
}

// writeServingCertificate writes the certificate of the webhook server, which runs always.
func writeServingCertificate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	config := &secrets.CertificateSecretConfig{Name: "gardener-resource-manager", CommonName: "gardener-resource-manager", CertType: secrets.ServerCert}

	ca, err := (&secrets.CertificateSecretConfig{Name: "ca", CommonName: "ca", CertType: secrets.CACert}).GenerateCertificate()
	if err != nil {
		return fmt.Errorf("generate a CA: %w", err)
	}

	config.SigningCA = ca

	serving, err := config.GenerateCertificate()
	if err != nil {
		return fmt.Errorf("generate a serving certificate: %w", err)
	}

	for name, data := range map[string][]byte{"tls.crt": serving.CertificatePEM, "tls.key": serving.PrivateKeyPEM} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return err
		}
	}

	return nil
}

func writeYAML(file string, content any) error {
	data, err := yaml.Marshal(content)
	if err != nil {
		return err
	}

	return os.WriteFile(file, data, 0o600)
}
