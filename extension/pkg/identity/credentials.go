// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"time"

	securityv1alpha1constants "github.com/gardener/gardener/pkg/apis/security/v1alpha1/constants"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

const (
	// annotationRenew is the time at which a token is renewed. Only Secrets with the token of an account
	// have it.
	annotationRenew = "kubevirt.provider.extensions.gardener.cloud/renew-token-at"
	// annotationCopied is the time at which gardenlet renews the token of a WorkloadIdentity, of which a Secret
	// has a copy. Only such Secrets have it.
	annotationCopied = "kubevirt.provider.extensions.gardener.cloud/copied-token-renewed-at"
	// annotationAccount is the UID of the ServiceAccount of a token.
	annotationAccount = "kubevirt.provider.extensions.gardener.cloud/service-account-uid"
)

// SecretName returns the name of the Secret in the seed with the kubeconfig and the token of a program.
func SecretName(program string) string { return "provider-cluster-" + program }

// RenewAt returns the time at which the token in a Secret is due for renewal; false if it is not
// the token of an account.
func RenewAt(secret *corev1.Secret) (time.Time, bool) { return timeIn(secret, annotationRenew) }

// IsCopy reports whether a Secret has a copy of the token of a WorkloadIdentity.
func IsCopy(secret *corev1.Secret) bool {
	_, is := secret.Annotations[annotationCopied]

	return is
}

// IsOutdated reports whether gardenlet has renewed the token in the credentials of the shoot since a Secret got a
// copy: after half of its lifetime, or earlier, for example for another WorkloadIdentity.
func IsOutdated(secret, source *corev1.Secret) bool {
	renewedAt := source.Annotations[securityv1alpha1constants.AnnotationWorkloadIdentityTokenRenewTimestamp]

	return renewedAt != "" && secret.Annotations[annotationCopied] != renewedAt
}

func timeIn(secret *corev1.Secret, annotation string) (time.Time, bool) {
	text, has := secret.Annotations[annotation]

	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, has // A token with an invalid time is due.
	}

	return at, has
}

// credentials are the credentials of a program: its Secret, and the values to write into it.
type credentials struct {
	seed client.Client
	// secret is the Secret of the program, which may not exist yet.
	secret *corev1.Secret
	// source are the credentials of the shoot: only the fields that pkg/kubeconfig allows.
	source *rest.Config
	// renewedAt is the time at which gardenlet renews them; empty if they are not those of a WorkloadIdentity.
	renewedAt string
	// kubeconfig is the kubeconfig of an account.
	kubeconfig []byte
	namespace  string
}

// read reads the Secrets in the seed.
func (m *Manager) read(ctx context.Context, i Identity) (*credentials, error) {
	c := &credentials{
		seed:      m.Seed,
		namespace: m.ProviderNamespace,
		secret:    &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: SecretName(i.Program)}},
	}
	if err := m.Seed.Get(ctx, client.ObjectKeyFromObject(c.secret), c.secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", c.secret.Name, err)
	}

	secret := &corev1.Secret{}
	if err := m.Seed.Get(ctx, client.ObjectKey{Namespace: m.Credentials.Namespace, Name: m.Credentials.Name}, secret); err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", m.Credentials.Name, err)
	}

	var err error
	if c.source, _, err = kubeconfig.RESTConfig(secret.Data[providerspec.SecretKeyKubeconfig]); err != nil {
		return nil, fmt.Errorf("%w: invalid kubeconfig of the provider cluster: %w", providercluster.ErrCredentials, err)
	}

	if kubevirt.IsWorkloadIdentity(secret) {
		c.renewedAt = secret.Annotations[securityv1alpha1constants.AnnotationWorkloadIdentityTokenRenewTimestamp]
	}

	c.kubeconfig, err = c.kubeconfigOf(&clientcmdapi.AuthInfo{TokenFile: mount.TokenFile})

	return c, err
}

// kubeconfigOf returns a kubeconfig of a user for the server of the shoot's credentials.
func (c *credentials) kubeconfigOf(user *clientcmdapi.AuthInfo) ([]byte, error) {
	const name = "provider"

	config := clientcmdapi.NewConfig()
	config.CurrentContext = name
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.source.Host, TLSServerName: c.source.ServerName, CertificateAuthorityData: c.source.CAData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: c.namespace}
	config.AuthInfos[name] = user

	return clientcmd.Write(*config)
}

// isCurrent reports whether the Secret has a token of an account that is not due for renewal, and a
// kubeconfig for the server of the shoot's credentials. An empty account matches any account.
func (c *credentials) isCurrent(account types.UID) bool {
	at, has := RenewAt(c.secret)

	return has && time.Now().Before(at) && string(c.secret.Data[mount.KeyKubeconfig]) == string(c.kubeconfig) &&
		(account == "" || c.secret.Annotations[annotationAccount] == string(account))
}

// write writes the Secret with a token of an account.
func (c *credentials) write(ctx context.Context, t *token) error {
	return c.writeSecret(ctx, c.kubeconfig, t.text, map[string]string{
		annotationRenew:   t.renewAt.UTC().Format(time.RFC3339),
		annotationAccount: string(t.account),
	})
}

// writeGiven writes the Secret with the credentials of the shoot.
func (c *credentials) writeGiven(ctx context.Context) error {
	user := &clientcmdapi.AuthInfo{
		ClientCertificateData: c.source.CertData,
		ClientKeyData:         c.source.KeyData,
		Username:              c.source.Username,
		Password:              c.source.Password,
	}
	if c.source.BearerToken != "" {
		user.TokenFile = mount.TokenFile
	}

	config, err := c.kubeconfigOf(user)
	if err != nil {
		return err
	}

	return c.writeSecret(ctx, config, c.source.BearerToken, c.copied())
}

// copied returns the annotations of a copy of the shoot's credentials.
func (c *credentials) copied() map[string]string {
	if c.renewedAt == "" {
		return nil
	}

	return map[string]string{annotationCopied: c.renewedAt}
}

// copy writes the current token of a WorkloadIdentity into the Secret of a program that has a copy of the
// previous one.
func (c *credentials) copy(ctx context.Context) error {
	if string(c.secret.Data[mount.KeyToken]) == c.source.BearerToken {
		return nil // gardenlet has not renewed it yet.
	}

	return c.writeGiven(ctx)
}

func (c *credentials) writeSecret(ctx context.Context, config []byte, token string, annotations map[string]string) error {
	c.secret.Annotations = annotations
	// The key exists always, so that the Deployment does not depend on the kind of the credentials.
	c.secret.Data = map[string][]byte{mount.KeyKubeconfig: config, mount.KeyToken: []byte(token)}

	write := func() error { return c.seed.Update(ctx, c.secret) }
	if c.secret.ResourceVersion == "" {
		write = func() error { return c.seed.Create(ctx, c.secret) }
	}

	if err := write(); err != nil {
		return fmt.Errorf("write Secret %s: %w", c.secret.Name, err)
	}

	return nil
}
