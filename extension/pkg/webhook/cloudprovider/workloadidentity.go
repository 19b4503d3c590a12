// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"cmp"
	"fmt"

	securityv1alpha1constants "github.com/gardener/gardener/pkg/apis/security/v1alpha1/constants"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// writeKubeconfig writes the kubeconfig into the Secret of a WorkloadIdentity. gardenlet requests and renews
// the token after it has written the Secret, which calls the webhook again: the kubeconfig always has the
// current token. namespace replaces that of the config, unless it is empty.
func writeKubeconfig(secret *corev1.Secret, namespace string) error {
	token := secret.Data[securityv1alpha1constants.DataKeyToken]
	if len(token) == 0 {
		delete(secret.Data, providerspec.SecretKeyKubeconfig)

		return nil
	}

	config, err := configOf(secret)
	if err != nil {
		return fmt.Errorf("config of the WorkloadIdentity: %w", err)
	}

	raw, err := kubeconfigOf(config, cmp.Or(namespace, config.Namespace), string(token))
	if err != nil {
		return fmt.Errorf("write the kubeconfig of the WorkloadIdentity: %w", err)
	}

	secret.Data[providerspec.SecretKeyKubeconfig] = raw

	return nil
}

// configOf returns the config of a WorkloadIdentity. The extension refuses internal servers when it connects.
func configOf(secret *corev1.Secret) (*api.WorkloadIdentityConfig, error) {
	const allowInternalServers = true

	config := &api.WorkloadIdentityConfig{}
	path := field.NewPath("spec", "targetSystem", "providerConfig")
	raw := secret.Data[securityv1alpha1constants.DataKeyConfig]

	errs := api.Decode(&runtime.RawExtension{Raw: raw}, path, config)
	if len(errs) == 0 {
		errs = validation.ValidateWorkloadIdentityConfig(config, allowInternalServers, path)
	}

	return config, errs.ToAggregate()
}

func kubeconfigOf(config *api.WorkloadIdentityConfig, namespace, token string) ([]byte, error) {
	const name = "provider"

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.CurrentContext = name
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Server,
		TLSServerName:            config.TLSServerName,
		CertificateAuthorityData: []byte(config.CertificateAuthority),
	}

	return clientcmd.Write(*kubeconfig)
}
