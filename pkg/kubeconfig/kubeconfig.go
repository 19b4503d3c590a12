// Package kubeconfig turns the kubeconfig of a MachineClass's Secret into clients of the provider cluster. The kubeconfig
// comes from the shoot's owner and is parsed next to other shoots' secrets, so only an allow-list of its fields is used and
// everything that could run a program, read a file or lead the driver elsewhere is refused. pkg/spi/providercluster calls it.
// It must not know what the clients are used for. No error of it quotes what the kubeconfig holds.
package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RESTConfig reads an untrusted kubeconfig and returns the configuration and the namespace of its current context; without a
// namespace, that is "default". An error names every field that is missing or refused.
func RESTConfig(raw []byte) (*rest.Config, string, error) {
	// The cause is dropped: decoders quote the bytes they stumble over.
	config, err := clientcmd.Load(raw)
	if err != nil || len(raw) == 0 {
		return nil, "", errors.New("not a kubeconfig: it must be YAML or JSON of apiVersion v1, kind Config")
	}

	current, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, "", errors.New("current-context: name one of the contexts")
	}

	cluster, ok := config.Clusters[current.Cluster]
	if !ok {
		return nil, "", errors.New("contexts: the current context must name one of the clusters")
	}

	user, ok := config.AuthInfos[current.AuthInfo]
	if !ok {
		return nil, "", errors.New("contexts: the current context must name one of the users")
	}

	if err := errors.Join(refusedClusterFields(cluster), refusedUserFields(user)); err != nil {
		return nil, "", err
	}

	return restConfig(cluster, user), namespaceOf(current), nil
}

func restConfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) *rest.Config {
	return &rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		Username:    user.Username,
		Password:    user.Password,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}
}

func namespaceOf(current *clientcmdapi.Context) string {
	if current.Namespace == "" {
		return metav1.NamespaceDefault
	}

	return current.Namespace
}

func refusedClusterFields(cluster *clientcmdapi.Cluster) error {
	server, err := url.Parse(cluster.Server)

	return errors.Join(
		refuse(err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil, "server", "use an https URL without credentials"),
		refuse(cluster.CertificateAuthority != "", "certificate-authority", "use certificate-authority-data"),
		refuse(cluster.InsecureSkipTLSVerify, "insecure-skip-tls-verify", "use certificate-authority-data"),
		refuse(cluster.ProxyURL != "", "proxy-url", "remove it"),
	)
}

func refusedUserFields(user *clientcmdapi.AuthInfo) error {
	return errors.Join(
		refuse(user.Exec != nil, "exec", "use a token or client-certificate-data"),
		refuse(user.AuthProvider != nil, "auth-provider", "use a token or client-certificate-data"),
		refuse(user.ClientCertificate != "", "client-certificate", "use client-certificate-data"),
		refuse(user.ClientKey != "", "client-key", "use client-key-data"),
		refuse(user.Token != "" && (user.Username != "" || user.Password != ""), "username", "use either a token or a username and password"),
		refuse(strings.ContainsFunc(user.Token, notPrintable), "token", "remove spaces, line breaks and what is not ASCII"),
		refuse(user.TokenFile != "", "tokenFile", "use token"),
		refuse(user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0,
			"act-as", "remove the impersonation"),
	)
}

// notPrintable says whether a character cannot be part of a bearer token in an HTTP header.
func notPrintable(r rune) bool {
	return r <= ' ' || r > '~'
}

func refuse(refused bool, name, remedy string) error {
	if !refused {
		return nil
	}

	return fmt.Errorf("field %s of the current context is refused: %s", name, remedy)
}
