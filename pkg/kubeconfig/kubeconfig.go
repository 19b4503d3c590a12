// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig turns the kubeconfig of a MachineClass's Secret into a client configuration
// for the provider cluster. The kubeconfig comes from the shoot's owner and is parsed next to
// other shoots' secrets, so only an allow-list of its fields is used, and every field that could
// run a program, read a file or redirect the driver is refused. The server behind it is not
// trusted either: pkg/providerapi bounds its responses. pkg/providerapi and the packages in tools
// call this package. It must not depend on how the configuration is used. Its errors never quote the
// kubeconfig.
package kubeconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	_ "golang.org/x/crypto/x509roots/fallback" // CAs for servers without certificate-authority-data: the container image has none
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// maxSize bounds a kubeconfig, in bytes. A kubeconfig with a certificate, a key and a CA bundle
// takes a tenth of it.
const maxSize = 256 << 10

// RESTConfig parses an untrusted kubeconfig and returns the configuration and the namespace of its
// current context; the namespace defaults to "default". An error names every field that is missing
// or refused. Entries that the current context does not use are parsed, but not checked: they have
// no effect, and many users keep all their clusters in one file.
func RESTConfig(raw []byte) (*rest.Config, string, error) {
	config, err := load(raw)
	if err != nil {
		return nil, "", err
	}

	return currentOf(config)
}

// RESTConfigWithToken is RESTConfig for a kubeconfig whose users may refer to a file of this name, in any folder. The file
// has the token.
func RESTConfigWithToken(raw []byte, file string, token []byte) (*rest.Config, string, error) {
	config, err := load(raw)
	if err != nil {
		return nil, "", err
	}

	for _, user := range config.AuthInfos {
		if path.Base(user.TokenFile) == file {
			user.TokenFile = ""
			user.Token = string(token)
		}
	}

	return currentOf(config)
}

// currentOf returns the configuration and the namespace of the current context.
func currentOf(config *clientcmdapi.Config) (*rest.Config, string, error) {
	current, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, "", errors.New("current-context: set it to the name of one of the contexts")
	}

	cluster, ok := config.Clusters[current.Cluster]
	if !ok {
		return nil, "", errors.New("contexts: the current context must name one of the clusters")
	}

	user, ok := config.AuthInfos[current.AuthInfo]
	if !ok {
		return nil, "", errors.New("contexts: the current context must name one of the users")
	}

	if err := errors.Join(refusedClusterFields(cluster), refusedUserFields(user), refusedNamespace(current)); err != nil {
		return nil, "", err
	}

	return restConfig(cluster, user), cmp.Or(current.Namespace, metav1.NamespaceDefault), nil
}

// load decodes a kubeconfig. It drops the causes of failures, because decoders quote
// the bytes that they cannot parse.
func load(raw []byte) (*clientcmdapi.Config, error) {
	if len(raw) > maxSize {
		return nil, fmt.Errorf("not a kubeconfig: it is larger than %d KiB; remove the entries that the current context does not use", maxSize>>10)
	}

	if hasAnchor(raw) {
		return nil, errors.New("not a kubeconfig: YAML anchors (&name) are refused; replace the aliases with their values")
	}

	// Strict, because parsers differ in which of two equal keys they use.
	document, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, errors.New("not a kubeconfig: it must be YAML or JSON without duplicate keys")
	}

	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil || string(document) == "null" || !isConfig(meta) {
		return nil, errors.New("not a kubeconfig: it must be of apiVersion v1, kind Config")
	}

	config, err := clientcmd.Load(document)
	if err != nil {
		return nil, errors.New("not a kubeconfig: a field has a value of the wrong type, data that is not base64, or a duplicate name")
	}

	return config, nil
}

// isConfig reports whether a document is a kubeconfig. Like kubectl, it
// does not require the two fields.
func isConfig(meta metav1.TypeMeta) bool {
	return cmp.Or(meta.APIVersion, "v1") == "v1" && cmp.Or(meta.Kind, "Config") == "Config"
}

// hasAnchor reports whether YAML may contain an anchor, which aliases require. With aliases, a small
// file can expand to gigabytes: the YAML library's own limit on aliases does not count the repetition
// of a long string. An anchor is at the beginning of a value, so an ampersand inside a word is not an
// anchor. An ampersand in quotes or in a comment may be mistaken for one; the user can then rewrite it.
func hasAnchor(raw []byte) bool {
	for i, b := range raw {
		if b != '&' {
			continue
		}

		begins := i == 0 || !isWord(raw[i-1])
		named := i+1 < len(raw) && raw[i+1] != ' ' && raw[i+1] != '\n'

		if begins && named {
			return true
		}
	}

	return false
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
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
