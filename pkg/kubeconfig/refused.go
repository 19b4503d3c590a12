// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// maxKeySize bounds a client key, in bytes: the time to check an RSA key grows with the cube of its
// length. An RSA key of 16384 bits has 13 KiB.
const maxKeySize = 16 << 10

func refusedClusterFields(cluster *clientcmdapi.Cluster) error {
	return errors.Join(
		refuse(!IsServer(cluster.Server), "server", "use an https URL without credentials, query and fragment"),
		refuse(cluster.CertificateAuthority != "", "certificate-authority", "use certificate-authority-data"),
		refuse(cluster.InsecureSkipTLSVerify, "insecure-skip-tls-verify", "use certificate-authority-data"),
		refuse(cluster.ProxyURL != "", "proxy-url", "remove it"),
		refuse(strings.ContainsFunc(cluster.TLSServerName, notPrintable), "tls-server-name", "use a DNS name or an IP address"),
	)
}

// IsServer reports whether a URL leads to the host that it names and contains nothing else but a path,
// which API servers behind a gateway need.
func IsServer(text string) bool {
	server, err := url.Parse(text)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return false
	}

	// The host is shown in logs and metrics.
	plain := !strings.ContainsFunc(server.Host, notPrintable)

	return plain && server.User == nil && server.RawQuery == "" && !server.ForceQuery && !strings.Contains(text, "#")
}

// Remedies shared by several fields.
const (
	tokenOrPassword = "use either a token or a username and password"
	noImpersonation = "remove it; the driver does not impersonate other users"
)

func refusedUserFields(user *clientcmdapi.AuthInfo) error {
	return errors.Join(
		refuse(user.Exec != nil, "exec", "use a token or client-certificate-data"),
		refuse(user.AuthProvider != nil, "auth-provider", "use a token or client-certificate-data"),
		refuse(user.ClientCertificate != "", "client-certificate", "use client-certificate-data"),
		refuse(user.ClientKey != "", "client-key", "use client-key-data"),
		refuse(len(user.ClientKeyData) > maxKeySize, "client-key-data", "use a shorter key"),
		refuse(len(user.ClientKeyData) == 0 && len(user.ClientCertificateData) > 0, "client-certificate-data", "add client-key-data"),
		refuse(len(user.ClientKeyData) > 0 && len(user.ClientCertificateData) == 0, "client-key-data", "add client-certificate-data"),
		refuse(user.Token != "" && user.Username != "", "username", tokenOrPassword),
		refuse(user.Token != "" && user.Password != "", "password", tokenOrPassword),
		refuse(strings.ContainsFunc(user.Token, notPrintable), "token", "remove spaces, line breaks and non-ASCII characters"),
		refuse(user.TokenFile != "", "tokenFile", "use token"),
		refuse(user.Impersonate != "", "as", noImpersonation),
		refuse(user.ImpersonateUID != "", "as-uid", noImpersonation),
		refuse(len(user.ImpersonateGroups) > 0, "as-groups", noImpersonation),
		refuse(len(user.ImpersonateUserExtra) > 0, "as-user-extra", noImpersonation),
		missingCredentials(user),
	)
}

// missingCredentials refuses a user whose requests would all be anonymous. Credentials of a refused
// type count too.
func missingCredentials(user *clientcmdapi.AuthInfo) error {
	given := user.Token != "" || user.TokenFile != "" || user.Username != "" || user.Exec != nil || user.AuthProvider != nil ||
		user.ClientCertificate != "" || user.ClientKey != "" || len(user.ClientCertificateData) > 0 || len(user.ClientKeyData) > 0
	if given {
		return nil
	}

	return errors.New("users: the user of the current context has no credentials: add a token, or client-certificate-data and client-key-data")
}

// refusedNamespace refuses a namespace that would change the path of requests.
func refusedNamespace(current *clientcmdapi.Context) error {
	malformed := current.Namespace != "" && len(validation.IsDNS1123Label(current.Namespace)) > 0

	return refuse(malformed, "namespace", "use the name of a namespace")
}

// notPrintable reports whether a character cannot be part of a host name, nor of a
// bearer token in an HTTP header.
func notPrintable(r rune) bool {
	return r <= ' ' || r > '~'
}

func refuse(refused bool, name, remedy string) error {
	if !refused {
		return nil
	}

	return fmt.Errorf("field %s of the current context is refused: %s", name, remedy)
}
