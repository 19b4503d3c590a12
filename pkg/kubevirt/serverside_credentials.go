// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"maps"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Kubeconfigs provides the kubeconfigs of provider clusters.
type Kubeconfigs interface {
	// For returns the kubeconfig for a cluster, which is the value of the tag v1alpha1.TagCluster.
	For(cluster string) ([]byte, error)
}

// secretWithKubeconfig returns the Secret of a request, with the kubeconfig of the cluster in the
// class's tags if the driver has its own kubeconfigs. It adds none for a class that the driver
// refuses, or whose machines it does not list. A request with a kubeconfig is refused, because the
// driver would not use it.
func (p *MachinePlugin) secretWithKubeconfig(class *v1alpha1.MachineClass, secret *corev1.Secret) (*corev1.Secret, error) {
	if p.options.Kubeconfigs == nil || class == nil || !machineclass.IsOurs(class) || !machineclass.Identity(class).Valid() {
		return secret, nil
	}

	completed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: machineclass.ServerSideSource}, Data: map[string][]byte{}}
	if secret != nil {
		maps.Copy(completed.Data, secret.Data)
	}

	if len(completed.Data[apiv1alpha1.SecretKeyKubeconfig]) > 0 {
		return nil, spi.WithRemedy(invalid("MachineClass %s: %s: this driver reads kubeconfigs from its --kubeconfig-dir and refuses those in requests",
			class.Name, machineclass.SourceOf(class, secret)), "remove the key "+apiv1alpha1.SecretKeyKubeconfig+" from the Secret")
	}

	kubeconfig, err := p.options.Kubeconfigs.For(machineclass.Identity(class).Cluster)
	if err != nil {
		return nil, spi.Errorf(spi.ErrPrecondition, "credentials of the driver: %w", err)
	}

	completed.Data[apiv1alpha1.SecretKeyKubeconfig] = kubeconfig

	return completed, nil
}
