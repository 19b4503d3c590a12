// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"path"

	extensionssecretsmanager "github.com/gardener/gardener/extensions/pkg/util/secret/manager"
	"github.com/gardener/gardener/pkg/utils/chart"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

var (
	seedChart = newChart("seed-controlplane",
		imagevector.CSIDriver, imagevector.CSIProvisioner, imagevector.CSIAttacher, imagevector.CSISnapshotter,
		imagevector.CSIResizer, imagevector.CSILivenessProbe, imagevector.CSISnapshotController, imagevector.ProviderProxy)
	shootChart          = newChart("shoot-system-components", imagevector.CSIDriver, imagevector.CSINodeDriverRegistrar, imagevector.CSILivenessProbe)
	shootCRDsChart      = newChart("shoot-crds")
	storageClassesChart = newChart("shoot-storageclasses")
)

func newChart(name string, images ...string) *chart.Chart {
	return &chart.Chart{Name: name, EmbeddedFS: charts.Internal, Path: path.Join(charts.Path, name), Images: images}
}

const (
	caName = "ca-" + kubevirt.Name + "-controlplane"
	// serverName is the name of the certificate with which cloud-controller-manager serves its metrics.
	serverName = kubevirt.CloudControllerManagerName + "-server"
)

// secretConfigs returns the certificates of the control plane. Gardener's secrets manager rotates them
// with the shoot's.
func secretConfigs(namespace string) []extensionssecretsmanager.SecretConfigWithOptions {
	return []extensionssecretsmanager.SecretConfigWithOptions{
		{
			Config:  &secrets.CertificateSecretConfig{Name: caName, CommonName: caName, CertType: secrets.CACert},
			Options: []secretsmanager.GenerateOption{secretsmanager.Persist()},
		},
		{
			Config: &secrets.CertificateSecretConfig{
				Name:                        serverName,
				CommonName:                  kubevirt.CloudControllerManagerName,
				CertType:                    secrets.ServerCert,
				DNSNames:                    kubernetesutils.DNSNamesForService(kubevirt.CloudControllerManagerName, namespace),
				SkipPublishingCACertificate: true,
			},
			Options: []secretsmanager.GenerateOption{secretsmanager.SignedByCA(caName)},
		},
	}
}

// shootPrograms are the programs in the seed that have an account in the shoot. The charts refer to
// their Secrets and ServiceAccounts.
var shootPrograms = []string{
	kubevirt.CloudControllerManagerName, kubevirt.CSIControllerName, "csi-provisioner", "csi-attacher", "csi-snapshotter", "csi-resizer", kubevirt.CSISnapshotControllerName,
}

// shootAccessSecrets returns the Secrets for the accounts in the shoot. gardener-resource-manager
// requests their tokens.
func shootAccessSecrets(namespace string) []*gardenerutils.AccessSecret {
	access := make([]*gardenerutils.AccessSecret, 0, len(shootPrograms))
	for _, program := range shootPrograms {
		access = append(access, gardenerutils.NewShootAccessSecret(program, namespace))
	}

	return access
}
