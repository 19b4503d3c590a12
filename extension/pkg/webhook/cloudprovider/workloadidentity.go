// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	securityv1alpha1constants "github.com/gardener/gardener/pkg/apis/security/v1alpha1/constants"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// writeKubeconfig writes the kubeconfig into the Secret of a WorkloadIdentity. gardenlet requests and renews
// the token after it has written the Secret, which calls the webhook again: the kubeconfig always has the
// current token. namespace replaces that of the config, unless it is empty. Until the token is one for the
// config, there is none.
func (e *ensurer) writeKubeconfig(secret, oldSecret *corev1.Secret, namespace string) error {
	token := secret.Data[securityv1alpha1constants.DataKeyToken]
	if len(token) == 0 || isOfAnotherIdentity(secret) {
		dropToken(secret)

		return nil
	}

	config, err := e.configOf(secret)
	if err != nil {
		return fmt.Errorf("config of the WorkloadIdentity: %w", err)
	}

	if e.isOfAnotherServer(secret, oldSecret, config) {
		dropToken(secret)

		return nil
	}

	raw, err := kubeconfigOf(config, cmp.Or(namespace, config.Namespace), string(token))
	if err != nil {
		return fmt.Errorf("write the kubeconfig of the WorkloadIdentity: %w", err)
	}

	secret.Data[providerspec.SecretKeyKubeconfig] = raw

	return nil
}

// isOfAnotherIdentity reports whether the token is not that of the WorkloadIdentity whose config the Secret
// has. gardenlet keeps the token until it is due when the Shoot changes to another WorkloadIdentity, whose
// server must not receive it (https://github.com/gardener/gardener/issues/15092).
func isOfAnotherIdentity(secret *corev1.Secret) bool {
	subject := strings.Join([]string{
		"gardener.cloud:workloadidentity",
		secret.Annotations[securityv1alpha1constants.AnnotationWorkloadIdentityNamespace],
		secret.Annotations[securityv1alpha1constants.AnnotationWorkloadIdentityName],
		"", // the UID, which the Secret does not have
	}, ":")

	return !strings.HasPrefix(kubeconfig.Subject(string(secret.Data[securityv1alpha1constants.DataKeyToken])), subject)
}

// isOfAnotherServer reports whether the token has been used for another server: the WorkloadIdentity may have
// been deleted and created again by somebody else.
func (e *ensurer) isOfAnotherServer(secret, oldSecret *corev1.Secret, config *api.WorkloadIdentityConfig) bool {
	const key = securityv1alpha1constants.DataKeyToken

	if oldSecret == nil || !bytes.Equal(secret.Data[key], oldSecret.Data[key]) {
		return false
	}

	oldConfig, err := e.configOf(oldSecret)

	return err != nil || config.Server != oldConfig.Server || config.TLSServerName != oldConfig.TLSServerName ||
		config.CertificateAuthority != oldConfig.CertificateAuthority
}

// dropToken removes the token, and what is made of it, so that gardenlet requests another one at once.
func dropToken(secret *corev1.Secret) {
	delete(secret.Data, providerspec.SecretKeyKubeconfig)
	delete(secret.Data, securityv1alpha1constants.DataKeyToken)
	delete(secret.Annotations, securityv1alpha1constants.AnnotationWorkloadIdentityTokenRenewTimestamp)
}

// configOf returns the config of a WorkloadIdentity. Its server is one that the operator allows now, whatever
// admission allowed before. The extension refuses internal servers when it connects.
func (e *ensurer) configOf(secret *corev1.Secret) (*api.WorkloadIdentityConfig, error) {
	const allowInternalServers = true

	config := &api.WorkloadIdentityConfig{}
	path := field.NewPath("spec", "targetSystem", "providerConfig")
	raw := secret.Data[securityv1alpha1constants.DataKeyConfig]

	errs := api.Decode(&runtime.RawExtension{Raw: raw}, path, config)
	if len(errs) == 0 {
		errs = validation.ValidateWorkloadIdentityConfig(config, allowInternalServers, e.identities.Allows, path)
	}

	return config, errs.ToAggregate()
}

func kubeconfigOf(config *api.WorkloadIdentityConfig, namespace, token string) ([]byte, error) {
	const name = "provider"

	file := clientcmdapi.NewConfig()
	file.CurrentContext = name
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Server,
		TLSServerName:            config.TLSServerName,
		CertificateAuthorityData: []byte(config.CertificateAuthority),
	}

	return clientcmd.Write(*file)
}
