// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package mount reads the credentials that package identity writes for a program of the control
// plane, and that kubelet mounts: a kubeconfig, and beside it the token to which the kubeconfig
// refers. Packages identity and connection and the ControlPlane controller call it. It must not reach a
// cluster.
package mount

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

const (
	// Path is the folder of the credentials in a container.
	Path = "/var/run/secrets/provider"
	// KeyKubeconfig is the key of the kubeconfig in the Secret, and the name of its file.
	KeyKubeconfig = "kubeconfig"
	// KeyToken is the same for the token.
	KeyToken = "token"
	// TokenFile is the file to which the kubeconfig refers.
	TokenFile = Path + "/" + KeyToken
)

// RESTConfig returns the configuration of a client with these credentials. It accepts what
// pkg/kubeconfig accepts, and a reference to the token's file. Errors quote neither of them.
func RESTConfig(raw, token []byte) (*rest.Config, error) {
	config, _, err := Read(raw, token)

	return config, err
}

// Read is RESTConfig, and also returns the namespace of the kubeconfig's context.
func Read(raw, token []byte) (*rest.Config, string, error) {
	config, namespace, err := kubeconfig.RESTConfigWithToken(raw, KeyToken, token)
	if err != nil {
		return nil, "", fmt.Errorf("the file %s: %w", KeyKubeconfig, err)
	}

	return config, namespace, nil
}
